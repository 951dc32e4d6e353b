"""A linear-chain conditional random field over packed sentences.

p(z|x) = exp(s(z)) / Z with s(z) = sum_t scores[t, z(t)] + sum_t moves[z(t-1), z(t)], the second sum
from a sentence's second token on.  scores (N, L); moves (L, L), or (N, L, L) where they differ from
token to token: row t leads to token t, and that of a first token is not read.  All of them may be
any finite numbers.  Z, marginals and best paths come from `kernels.chain` and `kernels.decode`:
`chain_of` says the field in their words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from convener.data.dataset import Dataset
from convener.inference.autograd import chain_objective
from convener.neural.transition import ILLEGAL_LOGIT, floored_log


class ChainPotentials(NamedTuple):
    """What `kernels.chain` and `kernels.decode` take, with the offsets: log Z is its likelihood."""

    log_initial: Tensor
    transition: Tensor
    log_evidence: Tensor


def crf_to_chain(scores: Tensor, transitions: Tensor, offsets: Tensor) -> ChainPotentials:
    """A hidden chain with the paths of the field, each with its score.

    The chain has a label before the sentence, O, and its moves from there to the first token are
    taken back in the evidence.  Moves by token are normalised there by row; what that takes from
    the paths through label i at t-1 is given back as evidence of i.
    """
    first_tokens = offsets[:-1][offsets.diff() > 0]
    if transitions.ndim == 2:
        correction = -transitions[0].expand(len(first_tokens), -1)
        return ChainPotentials(log_initial_o(scores), transitions, scores.index_add(0, first_tokens, correction))
    non_first = _non_first_tokens(offsets)
    log_evidence = scores.index_add(0, non_first - 1, transitions[non_first].logsumexp(2))
    # From O to a first token all moves are alike: 1/L each.
    uniform = scores.new_full((len(first_tokens), scores.shape[1]), math.log(scores.shape[1]))
    transition_logits = transitions.index_fill(0, first_tokens, 0.0)
    return ChainPotentials(log_initial_o(scores), transition_logits, log_evidence.index_add(0, first_tokens, uniform))


def log_initial_o(scores: Tensor) -> Tensor:
    """Log-probabilities of the label before a sentence, which is O.  scores (., L) -> (L,)"""
    log_initial = scores.new_full(scores.shape[-1:], -torch.inf)
    log_initial[0] = 0.0
    return log_initial


def add_start_scores(scores: Tensor, start: Tensor, offsets: Tensor) -> Tensor:
    """Scores (N, L) with those of first labels: (L,), or (M, L), for each sentence its own."""
    non_empty = offsets.diff() > 0
    rows = start.expand(len(non_empty), -1)[non_empty]
    return scores.index_add(0, offsets[:-1][non_empty], rows)


def log_partition(scores: Tensor, transitions: Tensor, offsets: Tensor) -> Tensor:
    """Log of the summed exp(score) of all paths, by sentence; 0 for an empty one.  -> (M,)

    >>> log_partition(torch.zeros(2, 3), torch.zeros(3, 3), torch.tensor([0, 2])).exp().round()
    tensor([9.])
    """
    value, _ = chain_objective(*crf_to_chain(scores, transitions, offsets), offsets)
    return value


def path_score(scores: Tensor, transitions: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
    """The score of one path in each sentence.  labels (N,) -> (M,)"""
    labels = labels.long()
    token_scores = scores.gather(1, labels[:, None]).squeeze(1)
    non_first = _non_first_tokens(offsets)
    pairs = labels[non_first - 1], labels[non_first]
    transition_scores = transitions[pairs] if transitions.ndim == 2 else transitions[(non_first, *pairs)]
    return _sum_by_sentence(token_scores.index_add(0, non_first, transition_scores), offsets)


def expected_score(scores: Tensor, transitions: Tensor, probabilities: Tensor, offsets: Tensor) -> Tensor:
    """The expected score of paths whose labels are drawn token by token, each by itself.

    probabilities (N, L) -> (M,).  Of paths that are known by such marginals only, neighbours are
    taken for independent; where all are sure this is `path_score`.
    """
    token_scores = (scores * probabilities).sum(1)
    non_first = _non_first_tokens(offsets)
    matrix = transitions[non_first] if transitions.ndim == 3 else transitions
    transition_scores = torch.matmul(probabilities[non_first - 1][:, None], matrix).squeeze(1)
    return _sum_by_sentence(
        token_scores.index_add(0, non_first, (transition_scores * probabilities[non_first]).sum(1)),
        offsets,
    )


class CRF(nn.Module):
    """The field's own weights: a score for each first label and for each move, zero at first.

    legal (L, L) and legal_start (L,) tell which moves and first labels are allowed: the others are
    `NEVER` nats less likely, which is finite.

    >>> crf, labels, offsets = CRF(2), torch.tensor([0, 1, 1]), torch.tensor([0, 3])
    >>> crf.log_likelihood(torch.zeros(3, 2), labels, offsets).exp()
    tensor([0.1250], grad_fn=<ExpBackward0>)
    """

    def __init__(
        self,
        num_labels: int,
        legal_transitions: Tensor | None = None,
        legal_first: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.start_transitions = nn.Parameter(torch.zeros(num_labels))
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.register_buffer("illegal_logits", torch.zeros(num_labels, num_labels))
        self.register_buffer("illegal_start_logits", torch.zeros(num_labels))
        self.illegal_logits: Tensor
        self.illegal_start_logits: Tensor
        if legal_transitions is not None:
            self.illegal_logits[~legal_transitions.bool()] = ILLEGAL_LOGIT
        if legal_first is not None:
            self.illegal_start_logits[~legal_first.bool()] = ILLEGAL_LOGIT

    def potentials(self, scores: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores with that of the first label, and moves, as the functions here take them."""
        start = self.start_transitions + self.illegal_start_logits
        return add_start_scores(scores, start, offsets), self.transitions + self.illegal_logits

    def log_likelihood(self, scores: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
        """The log-probability of the labels by sentence.  scores (N, L), labels (N,) -> (M,)"""
        potentials = self.potentials(scores, offsets)
        return path_score(*potentials, labels, offsets) - log_partition(*potentials, offsets)

    def expected_log_likelihood(self, scores: Tensor, probabilities: Tensor, offsets: Tensor) -> Tensor:
        """The same where labels are known by their probabilities (N, L) only.  -> (M,)"""
        potentials = self.potentials(scores, offsets)
        return expected_score(*potentials, probabilities, offsets) - log_partition(*potentials, offsets)

    def to_chain(self, scores: Tensor, offsets: Tensor) -> ChainPotentials:
        """For decoding and marginals: what `kernels.decode` and `train.chain.decoded` take."""
        return crf_to_chain(*self.potentials(scores, offsets), offsets)


def _non_first_tokens(offsets: Tensor) -> Tensor:
    """Tokens that have one before them in their sentence."""
    mask = torch.ones(int(offsets[-1]), dtype=torch.bool, device=offsets.device)
    mask[offsets[:-1][offsets.diff() > 0]] = False
    return mask.nonzero().squeeze(1)


def _sum_by_sentence(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums over the tokens of each sentence.  (N,) -> (M,)"""
    sentence = torch.repeat_interleave(offsets.diff())
    return values.new_zeros(len(offsets) - 1).index_add(0, sentence, values)


def build_crf(data: Dataset, *, legal: bool) -> CRF:
    """A field over the labels of the data, without moves that BIO forbids if so set."""
    tags = data.fine_tags
    if not legal:
        return CRF(len(tags))
    return CRF(len(tags), torch.tensor(tags.legal_transitions), torch.tensor(tags.legal_first))


def set_transitions(crf: CRF, transitions: NDArray[np.float64]) -> None:
    """Start where the field is a Markov chain with these moves, from O on.  moves (L, L)"""
    with torch.no_grad():
        crf.transitions.copy_(floored_log(transitions))
        crf.start_transitions.copy_(crf.transitions[0])
