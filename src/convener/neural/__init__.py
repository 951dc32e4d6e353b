"""Building blocks of network models and taggers: batches, training loop, checkpoints, layers, losses."""
