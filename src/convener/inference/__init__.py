"""Inference in chains, vote evidence and Dirichlet sampling: numerics without settings, files or networks."""
