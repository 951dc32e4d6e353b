"""Sparse-CHMM (KDD 2022)."""

from convener.models.sparse_chmm.model import SparseCHMM, SparseCHMMConfig

__all__ = ["SparseCHMM", "SparseCHMMConfig"]
