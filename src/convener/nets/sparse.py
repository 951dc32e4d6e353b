"""The network of Sparse-CHMM: transitions by token, reliabilities and addon scales by sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from convener.kernels import columns, dirichlet, expansion
from convener.kernels.parts import Parts
from convener.kernels.said import Said, log_evidence
from convener.nets.moves import PLAIN, Look, MovesNet, silent_linear

PIECE = 256
"""Sentences whose emissions are computed together."""


class Words(Protocol):
    """What of a batch matters here."""

    @property
    def sentences(self) -> Tensor: ...
    @property
    def said(self) -> Said: ...
    @property
    def parts(self) -> Parts | None: ...


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


class SparseNet(MovesNet):
    """Reliabilities and addon scales of sentences beside the moves.

    `columns` of reliability per source: L by label, 1 + E by entity type. `wxor` is zero, and with
    it the addon prior, until it is computed; `target` is what the addon prior starts near.
    `turn` is g_r, which changes between stages, and `base` nu_base, which may be estimated.
    """

    def __init__(
        self,
        width: int,
        sources: int,
        labels: int,
        columns: int,
        prior: Prior,
        turn: float,
        look: Look = PLAIN,
    ) -> None:
        super().__init__(width, sources, labels, look)
        self.columns, self.prior = columns, prior
        self.reliability = silent_linear(width, sources * columns)
        self.expansion = silent_linear(width, sources * labels)
        self.register_buffer("wxor", torch.zeros(sources, labels, labels))
        self.register_buffer("target", torch.zeros(sources, labels, labels))
        self.register_buffer("turn", torch.tensor(turn))
        self.register_buffer("base", torch.tensor(prior.base))
        self.base: Tensor
        self.wxor: Tensor
        self.target: Tensor
        self.turn: Tensor

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
        expand, base = self.prior.expand, float(self.base)
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
        said = batch.said if batch.parts is None else batch.parts.cells
        columns, totals = self.concentrations(batch.sentences, said)
        if generator is None:
            cells = dirichlet.log_mean(columns, totals, said)
        else:
            cells = dirichlet.log_sample(columns, totals, said, generator=generator)
        return log_evidence(batch.parts.joined(cells) if batch.parts else cells, batch.said)

    def emissions(self, sentences: Tensor) -> Tensor:
        """Mean emissions, all of them.  (M, D) -> (M, K, L, L) [sentence, source, latent, said]"""
        omega = self.rows(sentences).dense()
        omega = omega + expansion.addon_prior(self.scales(sentences), self.wxor)
        omega = self.prior.expand * omega + self.base
        return omega / omega.sum(-1, keepdim=True)

    def mean_emissions(self, sentences: Tensor) -> Tensor:
        """Mean emissions, averaged over sentences.  (M, D) -> (K, L, L)"""
        total = torch.zeros_like(self.wxor)
        with torch.no_grad():
            for part in torch.split(sentences, PIECE):
                total += self.emissions(part).sum(0)
        return total / max(1, len(sentences))
