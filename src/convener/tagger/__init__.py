"""Taggers: end models, trained on labels, that read text alone."""
