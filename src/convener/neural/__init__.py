"""Shared by network models and taggers: batches, the training loop, checkpoints, layers."""
