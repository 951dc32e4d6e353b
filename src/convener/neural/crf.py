"""A linear-chain conditional random field over packed sentences.

p(z|x) = exp(s(z)) / Z with s(z) = sum_t scores[t, z(t)] + sum_t transitions[z(t-1), z(t)], where the second sum starts
at the second token of a sentence.  scores (N, L); transitions (L, L), or (N, L, L) if they differ between tokens: row t
leads to token t, and the row of a first token is ignored.  All scores are finite.  Z, marginals and best paths are
computed by `inference.chain` and `inference.decoding`, after `crf_to_chain` has converted the CRF to a hidden chain.
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
    """Arguments of `inference.chain` and `inference.decoding` besides offsets; its log-likelihood is log Z."""

    log_initial: Tensor
    transition: Tensor
    log_evidence: Tensor


def crf_to_chain(scores: Tensor, transitions: Tensor, offsets: Tensor) -> ChainPotentials:
    """Convert a CRF to a hidden chain in which every path has the same score.

    The chain has a label before the sentence, O; the evidence of the first token cancels the transitions from there.
    The chain normalizes transitions by token over rows; the evidence of label i at t-1 compensates for row i at t.
    """
    first_tokens = offsets[:-1][offsets.diff() > 0]
    if transitions.ndim == 2:
        correction = -transitions[0].expand(len(first_tokens), -1)
        return ChainPotentials(log_initial_o(scores), transitions, scores.index_add(0, first_tokens, correction))
    non_first = _non_first_tokens(offsets)
    log_evidence = scores.index_add(0, non_first - 1, transitions[non_first].logsumexp(2))
    # Transitions from O to a first token are uniform, 1/L each.
    uniform = scores.new_full((len(first_tokens), scores.shape[1]), math.log(scores.shape[1]))
    transition_logits = transitions.index_fill(0, first_tokens, 0.0)
    return ChainPotentials(log_initial_o(scores), transition_logits, log_evidence.index_add(0, first_tokens, uniform))


def log_initial_o(scores: Tensor) -> Tensor:
    """Log-probabilities of the label before a sentence, which is O.  scores (., L) -> (L,)"""
    log_initial = scores.new_full(scores.shape[-1:], -torch.inf)
    log_initial[0] = 0.0
    return log_initial


def add_start_scores(scores: Tensor, start: Tensor, offsets: Tensor) -> Tensor:
    """Add scores of first labels, (L,) or by sentence (M, L), to scores (N, L)."""
    non_empty = offsets.diff() > 0
    rows = start.expand(len(non_empty), -1)[non_empty]
    return scores.index_add(0, offsets[:-1][non_empty], rows)


def log_partition(scores: Tensor, transitions: Tensor, offsets: Tensor) -> Tensor:
    """Log partition function of each sentence; 0 for an empty one.  -> (M,)

    >>> log_partition(torch.zeros(2, 3), torch.zeros(3, 3), torch.tensor([0, 2])).exp().round()
    tensor([9.])
    """
    value, _ = chain_objective(*crf_to_chain(scores, transitions, offsets), offsets)
    return value


def path_score(scores: Tensor, transitions: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
    """Score of the given path of each sentence.  labels (N,) -> (M,)"""
    labels = labels.long()
    token_scores = scores.gather(1, labels[:, None]).squeeze(1)
    non_first = _non_first_tokens(offsets)
    pairs = labels[non_first - 1], labels[non_first]
    transition_scores = transitions[pairs] if transitions.ndim == 2 else transitions[(non_first, *pairs)]
    return _sum_by_sentence(token_scores.index_add(0, non_first, transition_scores), offsets)


def expected_score(scores: Tensor, transitions: Tensor, probabilities: Tensor, offsets: Tensor) -> Tensor:
    """Expected score of paths whose labels are drawn independently, token by token.

    probabilities (N, L) -> (M,).  Only marginals are given, so neighbouring labels are assumed to be independent; with
    probabilities 0 and 1 this is `path_score`.
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
    """Weights of a CRF: a score for each first label and for each transition, initially zero.

    legal_transitions (L, L) and legal_first (L,) state which transitions and first labels are allowed; the others
    get `ILLEGAL_LOGIT` added to their score, a finite value.

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
        """Scores (N, L), those of first labels added, and transitions (L, L): arguments of the functions above."""
        start = self.start_transitions + self.illegal_start_logits
        return add_start_scores(scores, start, offsets), self.transitions + self.illegal_logits

    def log_likelihood(self, scores: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
        """Log-probability of the labels, by sentence.  scores (N, L), labels (N,) -> (M,)"""
        potentials = self.potentials(scores, offsets)
        return path_score(*potentials, labels, offsets) - log_partition(*potentials, offsets)

    def expected_log_likelihood(self, scores: Tensor, probabilities: Tensor, offsets: Tensor) -> Tensor:
        """Expected log-probability of labels with the given probabilities (N, L), by sentence.  -> (M,)"""
        potentials = self.potentials(scores, offsets)
        return expected_score(*potentials, probabilities, offsets) - log_partition(*potentials, offsets)

    def to_chain(self, scores: Tensor, offsets: Tensor) -> ChainPotentials:
        """Potentials for `inference.decoding.decode` and `inference.chain`."""
        return crf_to_chain(*self.potentials(scores, offsets), offsets)


def _non_first_tokens(offsets: Tensor) -> Tensor:
    """Indices of the tokens that are not the first of their sentence."""
    mask = torch.ones(int(offsets[-1]), dtype=torch.bool)
    mask[offsets[:-1][offsets.diff() > 0]] = False
    return mask.nonzero().squeeze(1)


def _sum_by_sentence(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums over the tokens of each sentence.  (N,) -> (M,)"""
    sentence = torch.repeat_interleave(offsets.diff())
    return values.new_zeros(len(offsets) - 1).index_add(0, sentence, values)


def build_crf(data: Dataset) -> CRF:
    """A CRF over the labels of the data without illegal BIO transitions."""
    tags = data.fine_tags
    return CRF(len(tags), torch.tensor(tags.legal_transitions), torch.tensor(tags.legal_first))


def set_transitions(crf: CRF, transitions: NDArray[np.float64]) -> None:
    """Initialize the CRF as a Markov chain that starts from O.  transitions (L, L), probabilities"""
    with torch.no_grad():
        crf.transitions.copy_(floored_log(transitions))
        crf.start_transitions.copy_(crf.transitions[0])
