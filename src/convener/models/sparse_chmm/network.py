"""The network of Sparse-CHMM: transitions by token, reliabilities and addon scales by sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from convener.inference import dirichlet
from convener.inference.vote_cells import CoarseCells, VoteCells, log_evidence
from convener.models.sparse_chmm import prior, prior_kernel
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork, zero_linear

CHUNK_SENTENCES = 256
"""Sentences whose emissions are computed together."""


class CellBatch(Protocol):
    """What of a batch matters here."""

    @property
    def sentences(self) -> Tensor: ...
    @property
    def cells(self) -> VoteCells: ...
    @property
    def coarse_cells(self) -> CoarseCells | None: ...


@dataclass(frozen=True, kw_only=True)
class SparsePrior:
    """How scores become emissions; symbols as in the paper."""

    h_n: float
    """h_n"""
    h_s: float
    """h_s"""
    g_n: float
    """g_n"""
    nu_base: float
    """nu_base"""
    nu_expan: float
    """nu_expan"""
    softmax: bool = True
    naive: bool = False


class SparseCHMMNetwork(TransitionNetwork):
    """Reliabilities and addon scales of sentences beside the moves.

    `columns` of reliability per source: L by label, 1 + E by entity type. `wxor` is zero, and with
    it the addon prior, until it is computed; `target` is what the addon prior starts near.
    `turn` is g_r, which changes between stages, and `base` nu_base, which may be estimated.
    """

    def __init__(
        self,
        input_dim: int,
        num_sources: int,
        num_labels: int,
        num_scores: int,
        prior: SparsePrior,
        g_r: float,
        context: ContextConfig = NO_CONTEXT,
    ) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        self.num_scores, self.prior = num_scores, prior
        self.reliability_layer = zero_linear(input_dim, num_sources * num_scores)
        self.addon_layer = zero_linear(input_dim, num_sources * num_labels)
        self.register_buffer("wxor", torch.zeros(num_sources, num_labels, num_labels))
        self.register_buffer("addon_target", torch.zeros(num_sources, num_labels, num_labels))
        self.register_buffer("g_r", torch.tensor(g_r))
        self.register_buffer("nu_base", torch.tensor(prior.nu_base))
        self.nu_base: Tensor
        self.wxor: Tensor
        self.addon_target: Tensor
        self.g_r: Tensor

    def reliability_scores(self, sentences: Tensor) -> Tensor:
        """Reliability scores A~ by label.  (M, D) -> (M, K, L)"""
        return self.base_prior(sentences).diagonal

    def addon_scale(self, sentences: Tensor) -> Tensor:
        """Scales C of the addon prior.  (M, D) -> (M, K, L)"""
        logits: Tensor = self.addon_layer(sentences)
        return logits.sigmoid().view(-1, self.num_sources, self.num_labels)

    def base_prior(self, sentences: Tensor) -> prior.PriorRows:
        """The base prior of these sentences, or its naive stand-in."""
        return prior_kernel.prior_rows(self._reliability_logits(sentences), self.num_labels, self._prior_params())

    def concentration(self, sentences: Tensor, cells: VoteCells) -> tuple[Tensor, Tensor]:
        """Omega of the labels said (C, L) [cell, latent], and its rows' sums (P, L)."""
        logits = self._reliability_logits(sentences)
        prior_at_cells = prior_kernel.base_prior_at(logits, self.num_labels, cells, self._prior_params())
        row_sums = sentences.new_ones(1, 1)
        if bool(self.wxor.any()):
            scale = self.addon_scale(sentences)
            prior_at_cells = prior_at_cells + prior.addon_prior_at(scale, self.wxor, cells)
            row_sums = 1 + prior.addon_row_sums(scale, self.wxor).reshape(-1, self.num_labels)
        nu_expan, nu_base = self.prior.nu_expan, float(self.nu_base)
        return nu_expan * prior_at_cells + nu_base, nu_expan * row_sums + self.num_labels * nu_base

    def _reliability_logits(self, sentences: Tensor) -> Tensor:
        """(M, D) -> (M, K, Q) logits"""
        logits: Tensor = self.reliability_layer(sentences)
        return logits.view(-1, self.num_sources, self.num_scores)

    def _prior_params(self) -> prior_kernel.PriorParams:
        prior, g_r = self.prior, float(self.g_r)
        return prior_kernel.PriorParams(prior.h_n, prior.h_s, prior.g_n, g_r, prior.softmax, prior.naive)

    def log_evidence(self, batch: CellBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence, with emissions drawn by a generator, else their mean.  -> (N, L)"""
        cells = batch.cells if batch.coarse_cells is None else batch.coarse_cells.cells
        concentration, row_sums = self.concentration(batch.sentences, cells)
        if generator is None:
            log_emission = dirichlet.log_dirichlet_mean(concentration, row_sums, cells)
        else:
            log_emission = dirichlet.log_dirichlet_sample(concentration, row_sums, cells, generator=generator)
        return log_evidence(
            batch.coarse_cells.sum_over_allowed(log_emission) if batch.coarse_cells else log_emission,
            batch.cells,
        )

    def emission(self, sentences: Tensor) -> Tensor:
        """Mean emissions, all of them.  (M, D) -> (M, K, L, L) [sentence, source, latent, said]"""
        omega = self.base_prior(sentences).dense()
        omega = omega + prior.addon_prior(self.addon_scale(sentences), self.wxor)
        omega = self.prior.nu_expan * omega + self.nu_base
        return omega / omega.sum(-1, keepdim=True)

    def mean_emission(self, sentences: Tensor) -> Tensor:
        """Mean emissions, averaged over sentences.  (M, D) -> (K, L, L)"""
        total = torch.zeros_like(self.wxor)
        with torch.no_grad():
            for chunk in torch.split(sentences, CHUNK_SENTENCES):
                total += self.emission(chunk).sum(0)
        return total / max(1, len(sentences))
