"""Network of Sparse-CHMM: transitions from token features, reliability and addon scale from sentence features."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from convener.inference import dirichlet
from convener.inference.vote_cells import VoteCells, log_evidence
from convener.models.sparse_chmm import prior_kernel
from convener.models.sparse_chmm.prior import PriorRows, SparsePrior, addon_prior, addon_prior_at, addon_row_sums
from convener.neural.batch import Batch
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork, zero_linear

CHUNK_SENTENCES = 256
"""Number of sentences whose emission matrices are held in memory at once."""


class SparseCHMMNetwork(TransitionNetwork):
    """Transitions, reliability scores A~ and addon scales C, each a linear function of the features.

    num_scores: reliability scores per source, L by label or 1 + E by entity type. Buffers: `wxor`, the WXOR scores W~,
    0 until stage 2, and with it the addon prior; `addon_target`, the emissions on which the addon prior is
    pre-trained; `g_r`, which changes between stages; `nu_base`, which may be estimated from the votes.
    """

    def __init__(
        self,
        input_dim: int,
        num_sources: int,
        num_labels: int,
        num_scores: int,
        prior: SparsePrior,
        context: ContextConfig = NO_CONTEXT,
    ) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        self.num_scores, self.prior = num_scores, prior
        self.reliability_layer = zero_linear(input_dim, num_sources * num_scores)
        self.addon_layer = zero_linear(input_dim, num_sources * num_labels)
        self.register_buffer("wxor", torch.zeros(num_sources, num_labels, num_labels))
        self.register_buffer("addon_target", torch.zeros(num_sources, num_labels, num_labels))
        self.register_buffer("g_r", torch.tensor(prior.g_r_by_stage(num_labels)[0]))
        self.register_buffer("nu_base", torch.tensor(1.0 if prior.nu_base is None else float(prior.nu_base)))
        self.nu_base: Tensor
        self.wxor: Tensor
        self.addon_target: Tensor
        self.g_r: Tensor

    def reliability_scores(self, sentences: Tensor) -> Tensor:
        """Reliability scores A~ by label, Eq. (1) and (2).  (M, D) -> (M, K, L)"""
        return self.base_prior(sentences).diagonal

    def addon_scale(self, sentences: Tensor) -> Tensor:
        """Scales C of the addon prior, sigmoid(FC(e0)).  (M, D) -> (M, K, L)"""
        logits: Tensor = self.addon_layer(sentences)
        return logits.sigmoid().view(-1, self.num_sources, self.num_labels)

    def base_prior(self, sentences: Tensor) -> PriorRows:
        """Base prior Lambda of each sentence by rows, Eq. (3), or without expansion.  (M, D) -> rows of (M, K, L)"""
        logits = self._reliability_logits(sentences)
        return prior_kernel.prior_rows(logits, self.num_labels, self.prior, float(self.g_r))

    def concentration(self, sentences: Tensor, cells: VoteCells) -> tuple[Tensor, Tensor]:
        """Omega = nu_expan (Lambda + Delta) + nu_base of the votes that occur, and its row sums.

        -> (C, L) [cell, latent], (P, L) [sentence and source, latent] or what broadcasts to it
        """
        logits = self._reliability_logits(sentences)
        prior_at_cells = prior_kernel.base_prior_at(logits, self.num_labels, cells, self.prior, float(self.g_r))
        row_sums = sentences.new_ones(1, 1)
        if bool(self.wxor.any()):
            scale = self.addon_scale(sentences)
            prior_at_cells = prior_at_cells + addon_prior_at(scale, self.wxor, cells)
            row_sums = 1 + addon_row_sums(scale, self.wxor).reshape(-1, self.num_labels)
        nu_expan, nu_base = self.prior.nu_expan, float(self.nu_base)
        return nu_expan * prior_at_cells + nu_base, nu_expan * row_sums + self.num_labels * nu_base

    def _reliability_logits(self, sentences: Tensor) -> Tensor:
        """Reliability logits A = FC(e0).  (M, D) -> (M, K, Q)"""
        logits: Tensor = self.reliability_layer(sentences)
        return logits.view(-1, self.num_sources, self.num_scores)

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence, Eq. (10), with emissions Phi ~ Dirichlet(Omega) if a generator is given, else their mean.

        -> (N, L)
        """
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
        """Mean emissions Omega / sum(Omega).  (M, D) -> (M, K, L, L) [sentence, source, latent, vote]"""
        omega = self.base_prior(sentences).dense()
        omega = omega + addon_prior(self.addon_scale(sentences), self.wxor)
        omega = self.prior.nu_expan * omega + self.nu_base
        return omega / omega.sum(-1, keepdim=True)

    def mean_emission(self, sentences: Tensor) -> Tensor:
        """Mean emissions, averaged over the sentences.  (M, D) -> (K, L, L) [source, latent, vote]"""
        total = torch.zeros_like(self.wxor)
        with torch.no_grad():
            for chunk in torch.split(sentences, CHUNK_SENTENCES):
                total += self.emission(chunk).sum(0)
        return total / max(1, len(sentences))
