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

import torch
from torch import Tensor, nn

from convener.kernels.chain_torch import objective
from convener.nets.moves import NEVER


class Chain(NamedTuple):
    """What `kernels.chain` and `kernels.decode` take, with the offsets: log Z is its likelihood."""

    log_init: Tensor
    trans: Tensor
    log_like: Tensor


def chain_of(scores: Tensor, moves: Tensor, offsets: Tensor) -> Chain:
    """A hidden chain with the paths of the field, each with its score.

    The chain has a label before the sentence, O, and its moves from there to the first token are
    taken back in the evidence.  Moves by token are normalised there by row; what that takes from
    the paths through label i at t-1 is given back as evidence of i.
    """
    begin = scores.new_full(scores.shape[1:], -torch.inf)
    begin[0] = 0.0
    first = offsets[:-1][offsets.diff() > 0]
    if moves.ndim == 2:
        back = -moves[0].expand(len(first), -1)
        return Chain(begin, moves, scores.index_add(0, first, back))
    later = _later(offsets)
    log_like = scores.index_add(0, later - 1, moves[later].logsumexp(2))
    # From O to a first token all moves are alike: 1/L each.
    even = scores.new_full((len(first), scores.shape[1]), math.log(scores.shape[1]))
    trans = moves.index_fill(0, first, 0.0)
    return Chain(begin, trans, log_like.index_add(0, first, even))


def log_partition(scores: Tensor, moves: Tensor, offsets: Tensor) -> Tensor:
    """Log of the summed exp(score) of all paths, by sentence; 0 for an empty one.  -> (M,)"""
    value, _ = objective(*chain_of(scores, moves, offsets), offsets)
    return value


def path_score(scores: Tensor, moves: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
    """The score of one path in each sentence.  labels (N,) -> (M,)"""
    labels = labels.long()
    own = scores.gather(1, labels[:, None]).squeeze(1)
    later = _later(offsets)
    pairs = labels[later - 1], labels[later]
    row = moves[pairs] if moves.ndim == 2 else moves[(later, *pairs)]
    return _by_sentence(own.index_add(0, later, row), offsets)


def expected_score(scores: Tensor, moves: Tensor, probabilities: Tensor, offsets: Tensor) -> Tensor:
    """The expected score of paths whose labels are drawn token by token, each by itself.

    probabilities (N, L) -> (M,).  Of paths that are known by such marginals only, neighbours are
    taken for independent; where all are sure this is `path_score`.
    """
    own = (scores * probabilities).sum(1)
    later = _later(offsets)
    matrix = moves[later] if moves.ndim == 3 else moves
    row = torch.matmul(probabilities[later - 1][:, None], matrix).squeeze(1)
    return _by_sentence(own.index_add(0, later, (row * probabilities[later]).sum(1)), offsets)


class CRF(nn.Module):
    """The field's own weights: a score for each first label and for each move, zero at first.

    legal (L, L) and legal_start (L,) tell which moves and first labels are allowed: the others are
    `NEVER` nats less likely, which is finite.
    """

    def __init__(
        self, labels: int, legal: Tensor | None = None, legal_start: Tensor | None = None
    ) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.moves = nn.Parameter(torch.zeros(labels, labels))
        self.register_buffer("floor", torch.zeros(labels, labels))
        self.register_buffer("start_floor", torch.zeros(labels))
        self.floor: Tensor
        self.start_floor: Tensor
        if legal is not None:
            self.floor[~legal.bool()] = NEVER
        if legal_start is not None:
            self.start_floor[~legal_start.bool()] = NEVER

    def field(self, scores: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores with that of the first label, and moves, as the functions here take them."""
        first = offsets[:-1][offsets.diff() > 0]
        start = (self.start + self.start_floor).expand(len(first), -1)
        return scores.index_add(0, first, start), self.moves + self.floor

    def log_likelihood(self, scores: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
        """The log-probability of the labels by sentence.  scores (N, L), labels (N,) -> (M,)"""
        field = self.field(scores, offsets)
        return path_score(*field, labels, offsets) - log_partition(*field, offsets)

    def expected_log_likelihood(
        self, scores: Tensor, probabilities: Tensor, offsets: Tensor
    ) -> Tensor:
        """The same where labels are known by their probabilities (N, L) only.  -> (M,)"""
        field = self.field(scores, offsets)
        return expected_score(*field, probabilities, offsets) - log_partition(*field, offsets)

    def chain(self, scores: Tensor, offsets: Tensor) -> Chain:
        """For decoding and marginals: what `kernels.decode` and `train.chain.decoded` take."""
        return chain_of(*self.field(scores, offsets), offsets)


def _later(offsets: Tensor) -> Tensor:
    """Tokens that have one before them in their sentence."""
    inner = torch.ones(int(offsets[-1]), dtype=torch.bool, device=offsets.device)
    inner[offsets[:-1][offsets.diff() > 0]] = False
    return inner.nonzero().squeeze(1)


def _by_sentence(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums over the tokens of each sentence.  (N,) -> (M,)"""
    sentence = torch.repeat_interleave(offsets.diff())
    return values.new_zeros(len(offsets) - 1).index_add(0, sentence, values)
