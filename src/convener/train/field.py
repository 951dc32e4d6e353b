"""How conditional random fields over the truth are started and trained."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from convener.data import Dataset
from convener.kernels.chain_torch import chain_objective
from convener.nets.crf import CRF, crf_to_chain, log_partition
from convener.nets.dws import DWSNetwork
from convener.train.chain import Floats
from convener.train.packing import Batch
from convener.train.start import floored_log


def build_crf(data: Dataset, *, legal: bool) -> CRF:
    """A field over the labels of the data, without moves that BIO forbids if so set."""
    tags = data.fine_tags
    if not legal:
        return CRF(len(tags))
    return CRF(len(tags), torch.tensor(tags.legal_transitions), torch.tensor(tags.legal_first))


def set_transitions(crf: CRF, transitions: Floats) -> None:
    """Start where the field is a Markov chain with these moves, from O on.  moves (L, L)"""
    with torch.no_grad():
        crf.transitions.copy_(floored_log(transitions))
        crf.start_transitions.copy_(crf.transitions[0])


def labels_loss(scores: Tensor, transitions: Tensor, votes: Tensor, batch: Batch) -> Tensor:
    """Minus the mean over sentences of log p(labels | features), where votes tell the labels.

    votes (N,): any label that a vote allows will do, any label at all where there is none. So it
    is log Z of the field, less log Z of the paths that are allowed.
    """
    log_allowed = torch.cat([torch.ones_like(batch.allowed[:1]), batch.allowed]).to(scores.dtype).log()
    allowed_scores = scores + log_allowed[votes.long() + 1]
    log_z = log_partition(scores, transitions, batch.offsets)
    return (log_z - log_partition(allowed_scores, transitions, batch.offsets)).mean()


def votes_loss(net: DWSNetwork, batch: Batch, generator: Generator | None, tau: float) -> Tensor:
    """Minus the mean over sentences of log p(votes | features) - tau H(z | votes, features).

    The first is log Z of the field with the votes' evidence, less log Z without.
    """
    scores, transitions = net.potentials(batch, generator)
    scores_with_votes = scores + net.vote_log_evidence(batch) + batch.log_evidence_offset
    value, _ = chain_objective(*crf_to_chain(scores_with_votes, transitions, batch.offsets), batch.offsets, tau=tau)
    return (log_partition(scores, transitions, batch.offsets) - value).mean()
