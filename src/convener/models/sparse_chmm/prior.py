"""Reference implementation of the emission prior in torch: Eq. (1) to (4) and (6) of the paper.

A score a = A~[k, i] estimates the probability that source k votes label i where i is true. The base prior Lambda puts
the score on the diagonal of an emission matrix and distributes 1 - a over the other labels, most of it to O. The addon
prior Delta adds weight where other sources disagree. `prior_kernel` is the compiled form that training uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from convener.config import Settings, check_min, check_range
from convener.inference.vote_cells import VoteCells

SCORE_EPS = 1e-6
"""Bound of the argument u of h, which is clamped to [SCORE_EPS, 1 - SCORE_EPS]: slopes at 0 and 1 may be infinite."""


@dataclass(frozen=True, kw_only=True)
class SparsePrior(Settings):
    """The emission prior: a group of settings of Sparse-CHMM, with the symbols of the paper."""

    h_n: float = 1.2
    """Exponent n of the scaling function h, Eq. (2); above 0. With h_n = h_s = 1, h is the identity."""
    h_s: float = 3.0
    """Exponent s of the scaling function h, Eq. (2); above 0. With h_n = h_s = 1, h is the identity."""
    g_n: float = 4.0
    """Exponent n of the expansion function g, Eq. (4); at least 1; with 1, all of 1 - a goes to O."""
    g_r: float | tuple[float, float] = 0.05
    """Split point r of the expansion function g, Eq. (4), as a multiple of 1/L, in (0, 1]; two values are that of stage
    1 and that of stages 2 and 3."""
    nu_base: float | None = None
    """Minimum concentration of the Dirichlet distributions, above 0: it bounds the evidence of a single vote. By
    default 40 w^2, where w is the estimated share of false single-source marks."""
    nu_expan: float = 1000.0
    """Scale of the priors in the concentration, above 0; a larger one gives less variance."""
    expansion: bool = True
    """Distribute 1 - a by the expansion function, Eq. (3). Otherwise evenly: the ablation "naive emission"."""
    softmax: bool = True
    """Softmax over the sources, Eq. (1). Otherwise a sigmoid for each: the ablation "without softmax"."""
    dirichlet: bool = True
    """Sample emissions from Dirichlet distributions in training. Otherwise use their mean: the ablation "without
    Dirichlet"."""
    wxor_split: Literal["both", "train", "valid"] = "both"
    """Splits from which the WXOR scores, Eq. (5), are computed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "(0, inf)", "h_n", "h_s", "nu_base", "nu_expan")
        check_min(self, 1, "g_n")
        check_range(self, "(0, 1]", "g_r")

    def g_r_by_stage(self, num_labels: int) -> tuple[float, float]:
        """Split points of stage 1 and of stages 2 and 3, divided by L."""
        first, later = self.g_r if isinstance(self.g_r, tuple) else (self.g_r, self.g_r)
        return first / num_labels, later / num_labels


def scale_reliability(probs: Tensor, *, h_n: float, h_s: float, h_r: float) -> Tensor:
    """Reliability scores h(a) of probabilities a in [0, 1], Eq. (2).  Any shape

    With u = a^(1/h_s), h(a) = u^h_n / h_r^(h_n-1) if u < h_r, else 1 - (1-u)^h_n / (1-h_r)^(h_n-1).  The paper prints
    a instead of u^h_n in the first case, which is not continuous: see docs/paper.md.  h_n > 1 decreases small values
    and increases large ones; h_s > 1 increases all values; h_r in (0, 1) is the split point on the scale of u.
    u is clamped to [1e-6, 1 - 1e-6]; the gradient is 0 outside.

    >>> scale_reliability(torch.tensor([0.04, 0.25, 0.49]), h_n=2, h_s=2, h_r=0.5)
    tensor([0.0800, 0.5000, 0.8200])
    """
    check_scale_params(h_n, h_s, h_r)
    # The slope of a root at 0 is infinite, and infinity times the clamp's 0 would be nan.
    u = probs.clamp(min=torch.finfo(probs.dtype).tiny).pow(1 / h_s).clamp(SCORE_EPS, 1 - SCORE_EPS)
    low = h_r ** (1 - h_n) * u.pow(h_n)
    high = 1 - (1 - h_r) ** (1 - h_n) * (1 - u).pow(h_n)
    return torch.where(u < h_r, low, high)


def unscale_reliability(scores: Tensor, *, h_n: float, h_s: float, h_r: float) -> Tensor:
    """Inverse of `scale_reliability`, Eq. (2): probabilities from scores in [0, 1].  Any shape"""
    check_scale_params(h_n, h_s, h_r)
    low = (h_r ** (h_n - 1) * scores).pow(1 / h_n)
    high = 1 - ((1 - h_r) ** (h_n - 1) * (1 - scores)).pow(1 / h_n)
    u = torch.where(scores < h_r, low, high)  # h(r) = r
    return u.clamp(SCORE_EPS, 1 - SCORE_EPS).pow(h_s)


def check_scale_params(h_n: float, h_s: float, h_r: float) -> None:
    """Raise an error if h is not defined for these parameters."""
    if not (h_n > 0 and h_s > 0 and 0 < h_r < 1):
        raise ValueError(f"expected h_n > 0, h_s > 0 and 0 < h_r < 1, got h_n={h_n}, h_s={h_s}, h_r={h_r}")


def reliability_scores(
    logits: Tensor,
    *,
    h_n: float = 1.0,
    h_s: float = 1.0,
    h_r: float | None = None,
    softmax: bool = True,
) -> Tensor:
    """Reliability scores A~, Eq. (1) and (2).  logits (..., K, Q) -> (..., K, Q), O in the first column

    O: sigmoid.  Others: softmax over the K sources, Eq. (1), then h, Eq. (2), with h_r = 1/K by default.  With
    h_n = h_s = 1, h is the identity (the ablation "without h"); without softmax, a sigmoid replaces it.  A single
    source uses sigmoids and no h.
    """
    num_sources = logits.shape[-2]
    o_scores, entity_scores = logits[..., :1].sigmoid(), logits[..., 1:]
    entity_scores = entity_scores.softmax(-2) if softmax and num_sources > 1 else entity_scores.sigmoid()
    if num_sources > 1 and (h_n, h_s) != (1, 1):
        h_r = 1 / num_sources if h_r is None else h_r
        entity_scores = scale_reliability(entity_scores, h_n=h_n, h_s=h_s, h_r=h_r)
    return torch.cat([o_scores, entity_scores], -1)


def reliability_logits(
    scores: Tensor,
    *,
    h_n: float = 1.0,
    h_s: float = 1.0,
    h_r: float | None = None,
    softmax: bool = True,
) -> Tensor:
    """Logits that give these reliability scores, the inverse of Eq. (1) and (2).  (..., K, Q) -> (..., K, Q)

    Sigmoids (O, a single source, or no softmax) are inverted exactly within [1e-6, 1 - 1e-6].  Otherwise h is inverted
    to probabilities a, and the logits are log a.  The result is exact if the probabilities of all sources sum to 1.
    If they do not, the softmax divides them by their sum: this minimizes the largest error of log a and preserves the
    ratios between sources.
    """
    num_sources = scores.shape[-2]
    target = scores.double()
    o_scores, entity_scores = target[..., :1], target[..., 1:]
    if num_sources > 1 and (h_n, h_s) != (1, 1):
        h_r = 1 / num_sources if h_r is None else h_r
        entity_scores = unscale_reliability(entity_scores, h_n=h_n, h_s=h_s, h_r=h_r)
    if softmax and num_sources > 1:
        entity_scores = entity_scores.clamp(min=torch.finfo(torch.float32).tiny).log()
    else:
        entity_scores = entity_scores.logit(SCORE_EPS)
    return torch.cat([o_scores.logit(SCORE_EPS), entity_scores], -1).to(scores.dtype)


def expand_to_labels(scores: Tensor, num_labels: int) -> Tensor:
    """Scores by label from scores of O and each entity type; B-x and I-x share a score.  (..., 1+E) -> (..., L)

    Scores that are already by label are returned unchanged.

    >>> expand_to_labels(torch.tensor([0.9, 0.5, 0.7]), num_labels=5)
    tensor([0.9000, 0.5000, 0.5000, 0.7000, 0.7000])
    """
    check_num_scores(scores.shape[-1], num_labels)
    if scores.shape[-1] == num_labels:
        return scores
    return torch.cat([scores[..., :1], scores[..., 1:].repeat_interleave(2, -1)], -1)


def check_num_scores(num_scores: int, num_labels: int) -> None:
    """Raise an error if scores are neither by label nor by entity type."""
    if num_scores not in (num_labels, (num_labels + 1) / 2):
        raise ValueError(
            f"expected {num_labels} scores (by label) or {num_labels // 2 + 1} (by entity type), got {num_scores}"
        )


class PriorRows(NamedTuple):
    """A base prior as three numbers per row, each (..., K, L): all labels but O and the row's own have equal weight."""

    diagonal: Tensor
    """Weight of the row's own label."""
    to_o: Tensor
    """Weight of O; not used in the row of O itself."""
    to_other: Tensor
    """Weight of each other label."""

    def dense(self) -> Tensor:
        """The complete matrices.  -> (..., K, L, L) [source, latent, vote]"""
        num_labels = self.diagonal.shape[-1]
        spread = self.to_other[..., None].expand(*self.to_other.shape, num_labels - 1)
        off_diagonal = torch.cat([self.to_o[..., None], spread], -1)
        is_diagonal = torch.eye(num_labels, dtype=torch.bool, device=off_diagonal.device)
        return torch.where(is_diagonal, self.diagonal[..., None], off_diagonal)

    def at_cells(self, cells: VoteCells) -> Tensor:
        """The prior of the votes that occur, for scores (M, K, L).  -> (C, L) [cell, latent]"""
        source_row, label = _cell_index(cells, self.diagonal)
        num_labels = self.diagonal.shape[-1]
        off_diagonal = torch.cat([x.reshape(-1, num_labels) for x in (self.to_o, self.to_other)])
        column = off_diagonal.index_select(0, source_row + len(cells.default_cell) * (label > 0))
        diagonal = self.diagonal.reshape(-1).index_select(0, source_row * num_labels + label)
        return column.scatter(1, label[:, None], diagonal[:, None])


def _cell_index(cells: VoteCells, like: Tensor) -> tuple[Tensor, Tensor]:
    """Row (sentence and source) and label of each cell, on the device of `like`."""
    source_row = torch.as_tensor(cells.source_row, device=like.device)
    return source_row, torch.as_tensor(cells.label, device=like.device).long()


def base_prior_rows(scores: Tensor, *, g_n: float, g_r: float) -> PriorRows:
    """Base prior Lambda by rows, Eq. (3).  scores (..., K, L) in [0, 1]; g_n and g_r as in `emit_to_o`

    Rows are non-negative and sum to 1 for all scores and all parameters that `emit_to_o` accepts.
    """
    num_labels = scores.shape[-1]
    to_o, to_other = _split_row(scores[..., 1:], num_labels, g_n, g_r)
    o_score = scores[..., :1]
    return PriorRows(
        scores,
        torch.cat([o_score, to_o], -1),
        torch.cat([(1 - o_score) / (num_labels - 1), to_other / (num_labels - 2)], -1),
    )


def uniform_prior_rows(scores: Tensor) -> PriorRows:
    """Prior of the ablation "naive emission": 1 - a is distributed evenly.  scores (..., K, L)"""
    off_diagonal = (1 - scores) / (scores.shape[-1] - 1)
    return PriorRows(scores, off_diagonal, off_diagonal)


def base_prior(scores: Tensor, *, g_n: float, g_r: float) -> Tensor:
    """Base prior Lambda, Eq. (3).  scores (..., K, L) -> (..., K, L, L) [source, latent, vote]

    >>> base_prior(torch.tensor([[0.9, 0.6, 0.0]]), g_n=4, g_r=0.1)
    tensor([[[0.9000, 0.0500, 0.0500],
             [0.3676, 0.6000, 0.0324],
             [1.0000, 0.0000, 0.0000]]])
    """
    return base_prior_rows(scores, g_n=g_n, g_r=g_r).dense()


def emit_to_o(scores: Tensor, *, num_labels: int, g_n: float, g_r: float) -> Tensor:
    """Weight g(a) of a vote for O in a row with score a in [0, 1], Eq. (4).  Any shape

    g(a) = c a^g_n + (1-L) a + 1 for a <= g_r, with the c that makes it smooth at g_r; for a > g_r a straight line to
    g(1) = 0.  g_n >= 1: the larger, the smaller g; g_r in (0, 1), not divided by L.  The remainder for other labels,
    1 - a - g(a), is never negative.  g is non-negative if g(g_r) >= 0, which holds for all g_r <= 1/(L-1).  Other
    parameters and fewer than 3 labels raise an error.
    """
    return _split_row(scores, num_labels, g_n, g_r)[0]


def _split_row(a: Tensor, num_labels: int, g_n: float, g_r: float) -> tuple[Tensor, Tensor]:
    """g(a), Eq. (4), and the remainder 1 - a - g(a).

    With x = a / g_r and d = g_n - (g_n-1) g_r >= 1, the remainder is (L-2) g_r (x - x^g_n / d) for a <= g_r.  In this
    form no digits are cancelled, and the remainder cannot become negative.
    """
    d, slope = g_coefficients(num_labels, g_n, g_r)
    x = (a / g_r).clamp(max=1)
    to_others = (num_labels - 2) * g_r * (x - x.pow(g_n) / d)
    low = a <= g_r
    to_o = torch.where(low, 1 - a - to_others, (1 - a) * (1 - slope))
    return to_o, torch.where(low, to_others, (1 - a) * slope)


def g_coefficients(num_labels: int, g_n: float, g_r: float) -> tuple[float, float]:
    """Coefficients of g, Eq. (4): d, and the share of 1 - a that labels other than O receive for a > g_r.

    Raises an error if g is not defined, or negative, for these parameters.
    """
    if not (num_labels >= 3 and g_n >= 1 and 0 < g_r < 1):
        raise ValueError(f"expected L >= 3, g_n >= 1 and 0 < g_r < 1, got L={num_labels}, g_n={g_n}, g_r={g_r}")
    d = g_n - (g_n - 1) * g_r
    others_at_g_r = (num_labels - 2) * g_r * (1 - 1 / d)
    if 1 - g_r - others_at_g_r < 0:
        raise ValueError(
            f"with L={num_labels} and g_n={g_n}, g_r={g_r} makes g negative; values up to 1/(L-1) = "
            f"{1 / (num_labels - 1):.4g} never do"
        )
    return d, others_at_g_r / (1 - g_r)


def addon_prior(scales: Tensor, wxor_scores: Tensor) -> Tensor:
    """Addon prior Delta, Eq. (6).  -> (..., K, L, L) [source, latent, vote]

    scales C (..., K, L) [source, query]; wxor_scores W~ (K, L, L) [source, query, target].  The target is the latent
    label and the query the vote, hence the transpose.
    """
    return (scales[..., None] * wxor_scores).transpose(-1, -2)


def addon_prior_at(scales: Tensor, wxor_scores: Tensor, cells: VoteCells) -> Tensor:
    """Addon prior Delta, Eq. (6), of the votes that occur, for scales (M, K, L).  -> (C, L) [cell, latent]"""
    source_row, label = _cell_index(cells, scales)
    num_sources, num_labels = scales.shape[-2:]
    cell_scales = scales.reshape(-1).index_select(0, source_row * num_labels + label)
    return cell_scales[:, None] * wxor_scores[source_row % num_sources, label]


def addon_row_sums(scales: Tensor, wxor_scores: Tensor) -> Tensor:
    """Row sums of the addon prior, sum over j of Delta[k, i, j].  scales (..., K, L) -> (..., K, L)"""
    return torch.einsum("...kq,kqi->...ki", scales, wxor_scores)
