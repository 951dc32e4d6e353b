"""How long one training step of Sparse-CHMM takes, beside the textbook and the bare layer."""
