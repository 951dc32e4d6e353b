"""How conditional random fields over the truth are started and trained."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from convener.data import Dataset
from convener.kernels.chain_torch import objective
from convener.nets.crf import CRF, chain_of, log_partition
from convener.nets.dws import DWSNet
from convener.train.chain import Floats
from convener.train.packing import Batch
from convener.train.start import logs


def new_field(data: Dataset, *, legal: bool) -> CRF:
    """A field over the labels of the data, without moves that BIO forbids if so set."""
    tags = data.fine_tags
    if not legal:
        return CRF(len(tags))
    return CRF(len(tags), torch.tensor(tags.legal), torch.tensor(tags.legal_start))


def set_moves(crf: CRF, moves: Floats) -> None:
    """Start where the field is a Markov chain with these moves, from O on.  moves (L, L)"""
    with torch.no_grad():
        crf.moves.copy_(logs(moves))
        crf.start.copy_(crf.moves[0])


def labels_loss(scores: Tensor, moves: Tensor, votes: Tensor, batch: Batch) -> Tensor:
    """Minus the mean over sentences of log p(labels | features), where votes tell the labels.

    votes (N,): any label that a vote allows will do, any label at all where there is none. So it
    is log Z of the field, less log Z of the paths that are allowed.
    """
    allowed = torch.cat([torch.ones_like(batch.allowed[:1]), batch.allowed]).to(scores.dtype).log()
    among = scores + allowed[votes.long() + 1]
    whole = log_partition(scores, moves, batch.offsets)
    return (whole - log_partition(among, moves, batch.offsets)).mean()


def votes_loss(net: DWSNet, batch: Batch, generator: Generator | None, tau: float) -> Tensor:
    """Minus the mean over sentences of log p(votes | features) - tau H(z | votes, features).

    The first is log Z of the field with the votes' evidence, less log Z without.
    """
    scores, moves = net.field(batch, generator)
    heard = scores + net.evidence(batch) + batch.given
    value, _ = objective(*chain_of(heard, moves, batch.offsets), batch.offsets, tau=tau)
    return (log_partition(scores, moves, batch.offsets) - value).mean()
