"""The offline half of semflip: data, synthesis, training, evaluation and the ``semflip`` command."""
