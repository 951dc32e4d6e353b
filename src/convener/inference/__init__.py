"""Numerics of chains, votes and Dirichlet distributions: no settings, no files, no networks."""
