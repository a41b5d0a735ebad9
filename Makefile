# Everything on a fresh machine without ROS: `make demo`, `make test`. `make help` lists the rest.
SHELL := /bin/bash
PYTHON ?= python3
# All recipes run inside the environment of env.bash.
IN := . ./env.bash &&

.DEFAULT_GOAL := help
.PHONY: slow faults soak fuzz mutants reliability help build demo test notebook lint format sample gate shell clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 16

build:  ## Check tools, make .venv, install, build the messages (seconds when done before)
	@$(PYTHON) cmake/bootstrap.py

demo: build  ## The real job with real processes: a goal, or "I do not know"
	@$(IN) python -m semflip_ros.demo

test: build  ## All tests that need no GPU and no hub
	@$(IN) python -m pytest -m "not slow" $(PYTEST_ARGS)

notebook: build  ## Execute docs/reproduce.ipynb in its short form
	@$(IN) python -m pytest test/train/test_notebook.py

slow: build  ## The tests that make test leaves out
	@$(IN) python -m pytest -m slow $(PYTEST_ARGS)

lint: build  ## ruff and mypy
	@$(IN) ruff check . && ruff format --check . && mypy

format: build  ## Let ruff format and sort
	@$(IN) ruff check --fix . && ruff format .

sample: build  ## Render the sample dataset again; ASSETS=DIR where the furniture is not installed
	@$(IN) semflip simulate data/sample --name semflip-sample --seed 33 --split 2,1,1 \
	  --questions 24 --quality 66 --stops 2 --painted 0 --no-balanced --corridors 0 $(if $(ASSETS),--assets $(ASSETS))

gate: build  ## Train the shipped gate again, from rendered rooms (about an hour); ASSETS as above
	@$(IN) python -m semflip_train.ship $(if $(ASSETS),--assets $(ASSETS))

faults: build  ## Every fault at every moment, hostile questions, 200 lifecycles
	@$(IN) PYTHONPATH=test:$$PYTHONPATH python -m faults.suite --hostile --sequences 200 --out out/faults.json

soak: build  ## Ten minutes of more load than the node can serve (MINUTES=10)
	@$(IN) PYTHONPATH=test:$$PYTHONPATH python -m faults.soak --minutes $(or $(MINUTES),10)

fuzz: build  ## Spoilt files and messages for every parser (MINUTES=30 in all, SEED=...)
	@$(IN) PYTHONPATH=test:$$PYTHONPATH python -m faults.fuzz --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED))

mutants: build  ## Take each guard out of a copy: the tests must notice
	@$(IN) PYTHONPATH=test:$$PYTHONPATH python -m faults.mutants

reliability: build  ## Write the tables of docs/reliability.md from what the four found
	@$(IN) PYTHONPATH=test:$$PYTHONPATH python -m faults.page

shell: build  ## A bash with the package ready to use
	@bash --rcfile env.bash -i

clean:  ## Remove what colcon and the demo made; .venv stays (rm -rf .venv for that)
	rm -rf build install log out .venv/.stamps/build
