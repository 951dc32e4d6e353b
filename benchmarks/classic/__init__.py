"""The classic label models on the real data sets."""
