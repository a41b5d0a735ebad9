"""The offline half of semflip: data, synthesis, training, evaluation, the ``semflip`` command."""
