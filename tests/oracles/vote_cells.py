"""Reference of the log evidence of vote cells, in torch operations."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from convener.inference.vote_cells import VoteCells


def log_evidence_reference(log_emission: Tensor, cells: VoteCells) -> Tensor:
    """As `vote_cells.log_evidence`.  log_emission (C, L) -> (N, L)"""
    lengths = np.diff(cells.offsets)
    sentences = np.arange(len(cells))
    first_cell = cells.cell_offsets[:: cells.num_sources][:-1] if cells.num_sources else np.zeros(len(cells), np.int64)
    first_cell = first_cell - cells.cell_offsets[0]
    num_exceptions = np.diff(cells.exception_offsets)
    row_sentence = np.repeat(sentences, cells.num_sources)
    exception_sentence = np.repeat(np.repeat(sentences, lengths), num_exceptions)
    exception_token = np.repeat(np.arange(lengths.sum()), num_exceptions)
    voting = np.flatnonzero(cells.default_cell >= 0)
    default_cells = (first_cell[row_sentence] + cells.default_cell)[voting]
    by_sentence = log_emission.new_zeros(len(cells), log_emission.shape[1]).index_add(
        0, torch.as_tensor(row_sentence[voting]), log_emission[torch.as_tensor(default_cells)]
    )
    evidence = by_sentence.repeat_interleave(torch.as_tensor(lengths), 0)
    for cell, sign in ((cells.added_cell, 1), (cells.removed_cell, -1)):
        counted = np.flatnonzero(cell >= 0)
        rows = log_emission[torch.as_tensor((first_cell[exception_sentence] + cell)[counted])]
        evidence = evidence.index_add(0, torch.as_tensor(exception_token[counted]), rows, alpha=sign)
    return evidence
