"""The network of Sparse-CHMM: transitions by token, reliabilities and addon scales by sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.kernels import columns, dirichlet, expansion
from convener.kernels.linear import linear
from convener.kernels.said import Said, log_evidence

NEVER = -20.0
"""Added to the logit of a move that is not allowed: a finite floor.  The start makes such moves
1e-6 likely already; below 1e-18 the chain in single precision has to watch them all the time.
"""


class Words(Protocol):
    """What of a batch matters here."""

    @property
    def sentences(self) -> Tensor: ...
    @property
    def said(self) -> Said: ...


@dataclass(frozen=True, kw_only=True)
class Prior:
    """How scores become emissions; symbols as in the paper."""

    steepness: float
    """h_n"""
    root: float
    """h_s"""
    exponent: float
    """g_n"""
    base: float
    """nu_base"""
    expand: float
    """nu_expan"""
    softmax: bool = True
    naive: bool = False


class SparseNet(nn.Module):
    """Weights of all parts; they start at zero, so that biases alone speak at first.

    `columns` of reliability per source: L by label, 1 + E by entity type. `wxor` is zero, and with
    it the addon prior, until it is computed; `target` is what the addon prior starts near.
    `turn` is g_r, which changes between stages.
    """

    def __init__(
        self, width: int, sources: int, labels: int, columns: int, prior: Prior, turn: float
    ) -> None:
        super().__init__()
        self.sources, self.labels, self.columns, self.prior = sources, labels, columns, prior
        self.initial = nn.Parameter(torch.zeros(labels))
        self.transition = nn.Linear(width, labels * labels)
        self.reliability = nn.Linear(width, sources * columns)
        self.expansion = nn.Linear(width, sources * labels)
        self.register_buffer("floor", torch.zeros(labels * labels))
        self.register_buffer("wxor", torch.zeros(sources, labels, labels))
        self.register_buffer("target", torch.zeros(sources, labels, labels))
        self.register_buffer("turn", torch.tensor(turn))
        self.floor: Tensor
        self.turn: Tensor
        self.wxor: Tensor
        self.target: Tensor
        for part in (self.transition, self.reliability, self.expansion):
            nn.init.zeros_(part.weight)
            nn.init.zeros_(part.bias)

    def log_initial(self) -> Tensor:
        """Log-probabilities of the hidden label before a sentence.  -> (L,)"""
        return self.initial.log_softmax(0)

    def moves(self, tokens: Tensor) -> Tensor:
        """Logits of the moves to each token's label.  (N, D) -> (N, L, L)"""
        bias = self.transition.bias + self.floor
        logits = linear(tokens, self.transition.weight, bias)
        return logits.view(-1, self.labels, self.labels)

    def scores(self, sentences: Tensor) -> Tensor:
        """Reliability scores A~ by label.  (M, D) -> (M, K, L)"""
        return self.rows(sentences).right

    def scales(self, sentences: Tensor) -> Tensor:
        """Scales C of the addon prior.  (M, D) -> (M, K, L)"""
        logits: Tensor = self.expansion(sentences)
        return logits.sigmoid().view(-1, self.sources, self.labels)

    def rows(self, sentences: Tensor) -> expansion.Rows:
        """The base prior of these sentences, or its naive stand-in."""
        return columns.base_rows(self._reliabilities(sentences), self.labels, self._law())

    def concentrations(self, sentences: Tensor, said: Said) -> tuple[Tensor, Tensor]:
        """Omega of the labels said (C, L) [cell, latent], and its rows' sums (P, L)."""
        logits = self._reliabilities(sentences)
        spoken = columns.base_columns(logits, self.labels, said, self._law())
        totals = sentences.new_ones(1, 1)
        if bool(self.wxor.any()):
            scales = self.scales(sentences)
            spoken = spoken + expansion.addon_columns(scales, self.wxor, said)
            totals = 1 + expansion.addon_totals(scales, self.wxor).reshape(-1, self.labels)
        expand, base = self.prior.expand, self.prior.base
        return expand * spoken + base, expand * totals + self.labels * base

    def _reliabilities(self, sentences: Tensor) -> Tensor:
        """(M, D) -> (M, K, Q) logits"""
        logits: Tensor = self.reliability(sentences)
        return logits.view(-1, self.sources, self.columns)

    def _law(self) -> columns.Law:
        prior, turn = self.prior, float(self.turn)
        return columns.Law(
            prior.steepness, prior.root, prior.exponent, turn, prior.softmax, prior.naive
        )

    def log_like(self, batch: Words, generator: Generator | None = None) -> Tensor:
        """Log evidence, with emissions drawn by a generator, else their mean.  -> (N, L)"""
        columns, totals = self.concentrations(batch.sentences, batch.said)
        if generator is None:
            cells = dirichlet.log_mean(columns, totals, batch.said)
        else:
            cells = dirichlet.log_sample(columns, totals, batch.said, generator=generator)
        return log_evidence(cells, batch.said)

    def emissions(self, sentences: Tensor) -> Tensor:
        """Mean emissions, all of them.  (M, D) -> (M, K, L, L) [sentence, source, latent, said]"""
        omega = self.rows(sentences).dense()
        omega = omega + expansion.addon_prior(self.scales(sentences), self.wxor)
        omega = self.prior.expand * omega + self.prior.base
        return omega / omega.sum(-1, keepdim=True)
