"""From reliability scores to emissions: the functions h and g, the base and the addon prior.

A score a = A~[k, i] is how surely source k says label i where it is true; a prior spreads what is
left of each row over the other labels, most of it over O.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from convener.inference.vote_cells import VoteCells

SCORE_EPS = 1e-6
"""u of the scaling function stays this far from 0 and 1, where slopes may be infinite."""


def scale_reliability(probs: Tensor, *, h_n: float, h_s: float, h_r: float) -> Tensor:
    """The scaling function h: scores from shares in [0, 1], of any shape.

    With u = a^(1/root), h(a) = u^n / r^(n-1) below the turn and 1 - (1-u)^n / (1-r)^(n-1) above.
    steepness n > 0 is the paper's h_n: above 1, small values get smaller and large ones larger;
    root > 0 is its h_s: above 1, all get larger; turn r in (0, 1), on the scale of u, is its h_r.
    u is held within [1e-6, 1 - 1e-6], and its gradient is 0 beyond.

    >>> scale_reliability(torch.tensor([0.04, 0.25, 0.49]), h_n=2, h_s=2, h_r=0.5)
    tensor([0.0800, 0.5000, 0.8200])
    """
    check_scale_params(h_n, h_s, h_r)
    # The slope of a root at 0 is infinite, and nan after the clamp.
    u = probs.clamp(min=torch.finfo(probs.dtype).tiny).pow(1 / h_s).clamp(SCORE_EPS, 1 - SCORE_EPS)
    low = h_r ** (1 - h_n) * u.pow(h_n)
    high = 1 - (1 - h_r) ** (1 - h_n) * (1 - u).pow(h_n)
    return torch.where(u < h_r, low, high)


def unscale_reliability(scores: Tensor, *, h_n: float, h_s: float, h_r: float) -> Tensor:
    """The inverse of `scaled`: shares from scores in [0, 1], of any shape."""
    check_scale_params(h_n, h_s, h_r)
    low = (h_r ** (h_n - 1) * scores).pow(1 / h_n)
    high = 1 - ((1 - h_r) ** (h_n - 1) * (1 - scores)).pow(1 / h_n)
    u = torch.where(scores < h_r, low, high)  # h(r) = r
    return u.clamp(SCORE_EPS, 1 - SCORE_EPS).pow(h_s)


def check_scale_params(h_n: float, h_s: float, h_r: float) -> None:
    """Refuse parameters that h does not have."""
    if not (h_n > 0 and h_s > 0 and 0 < h_r < 1):
        raise ValueError(f"expected steepness > 0, root > 0 and turn in (0, 1), got {h_n}, {h_s} and {h_r}")


def reliability_scores(
    logits: Tensor,
    *,
    h_n: float = 1.0,
    h_s: float = 1.0,
    h_r: float | None = None,
    softmax: bool = True,
) -> Tensor:
    """Reliability scores A~.  logits (..., K, 1+C) -> (..., K, 1+C), O and then the other columns

    O: sigmoid.  Others: softmax over the K sources, then h, whose turn is 1/K if not given.  With
    steepness and root 1, h changes nothing (the ablation "without h"); without softmax, a sigmoid
    stands in its place.  A single source has sigmoids and no h.
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
    """Logits whose reliability scores are these, or near them.  (..., K, 1+C) -> the same

    O, a single source, and all without softmax: exact within [1e-6, 1 - 1e-6].  Otherwise h is
    inverted, and the logits are the logs of the shares a found, up to the constant that a softmax
    does not see: exact where the shares of all sources sum to 1.  Where they do not, all are
    divided by their sum.  Of all shares that sum to 1 these have the smallest largest error of
    log a, and keep the order of the sources and the ratios of their shares.
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
    """Scores of labels from those of O and entity types; B-x and I-x share.  (..., 1+E) -> (..., L)

    Scores that are by label already stay as they are.

    >>> expand_to_labels(torch.tensor([0.9, 0.5, 0.7]), num_labels=5)
    tensor([0.9000, 0.5000, 0.5000, 0.7000, 0.7000])
    """
    check_num_scores(scores.shape[-1], num_labels)
    if scores.shape[-1] == num_labels:
        return scores
    return torch.cat([scores[..., :1], scores[..., 1:].repeat_interleave(2, -1)], -1)


def check_num_scores(num_scores: int, num_labels: int) -> None:
    """Refuse scores that are neither by label nor by entity type."""
    if num_scores not in (num_labels, (num_labels + 1) / 2):
        raise ValueError(f"expected {num_labels} or {num_labels // 2 + 1} scores, got {num_scores}")


class PriorRows(NamedTuple):
    """A prior in which all wrong labels but O are alike: three numbers for each row (..., K, L)."""

    diagonal: Tensor
    """What the row gives to its own label."""
    to_o: Tensor
    """What it gives to O; nothing of it is used in the row of O itself."""
    to_other: Tensor
    """What it gives to each label that is neither."""

    def dense(self) -> Tensor:
        """All of the prior.  -> (..., K, L, L) [source, latent, said]"""
        num_labels = self.diagonal.shape[-1]
        spread = self.to_other[..., None].expand(*self.to_other.shape, num_labels - 1)
        whole = torch.cat([self.to_o[..., None], spread], -1)
        is_diagonal = torch.eye(num_labels, dtype=torch.bool, device=whole.device)
        return torch.where(is_diagonal, self.diagonal[..., None], whole)

    def at_cells(self, cells: VoteCells) -> Tensor:
        """Only the labels that are said, for scores (M, K, L).  -> (C, L) [cell, latent]"""
        source_row, label = _cell_index(cells, self.diagonal)
        num_labels = self.diagonal.shape[-1]
        off_diagonal = torch.cat([x.reshape(-1, num_labels) for x in (self.to_o, self.to_other)])
        column = off_diagonal.index_select(0, source_row + len(cells.default_cell) * (label > 0))
        diagonal = self.diagonal.reshape(-1).index_select(0, source_row * num_labels + label)
        return column.scatter(1, label[:, None], diagonal[:, None])


def _cell_index(cells: VoteCells, like: Tensor) -> tuple[Tensor, Tensor]:
    """Pair and label of each cell, as indices where `like` is."""
    source_row = torch.as_tensor(cells.source_row, device=like.device)
    return source_row, torch.as_tensor(cells.label, device=like.device).long()


def base_prior_rows(scores: Tensor, *, g_n: float, g_r: float) -> PriorRows:
    """The base prior Lambda by rows.  scores (..., K, L) in [0, 1]; g's parameters as in `outside`

    Rows are non-negative and sum to 1, whatever the scores, for all parameters that `outside`
    accepts.
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
    """The prior of the ablation "naive emission": what is wrong is uniform.  scores (..., K, L)"""
    off_diagonal = (1 - scores) / (scores.shape[-1] - 1)
    return PriorRows(scores, off_diagonal, off_diagonal)


def base_prior(scores: Tensor, *, g_n: float, g_r: float) -> Tensor:
    """The base prior Lambda.  scores (..., K, L) -> (..., K, L, L) [source, latent, said]

    >>> base_prior(torch.tensor([[0.9, 0.6, 0.0]]), g_n=4, g_r=0.1)
    tensor([[[0.9000, 0.0500, 0.0500],
             [0.3676, 0.6000, 0.0324],
             [1.0000, 0.0000, 0.0000]]])
    """
    return base_prior_rows(scores, g_n=g_n, g_r=g_r).dense()


def emit_to_o(scores: Tensor, *, num_labels: int, g_n: float, g_r: float) -> Tensor:
    """The function g: how much of a row with score a in [0, 1] goes to O.  Of any shape

    g(a) = c a^n + (1-L) a + 1 up to the turn r, with the c that makes it smooth there, and a
    straight line to g(1) = 0 from there on.  exponent n >= 1 is the paper's g_n: the larger, the
    less goes to O; turn r in (0, 1) is its g_r, as such and not as a share of 1/L.  What is left
    for other labels, 1 - a - g(a), is never negative; g itself is not if g(r) >= 0, as it is for
    every r <= 1/(L-1).  Other parameters, and fewer than 3 labels, are refused.
    """
    return _split_row(scores, num_labels, g_n, g_r)[0]


def _split_row(a: Tensor, num_labels: int, g_n: float, g_r: float) -> tuple[Tensor, Tensor]:
    """g(a), and 1 - a - g(a).

    With x = a/r and d = n - (n-1) r, which is 1 or more, the latter is (L-2) r (x - x^n / d) up to
    the turn: so written, no digits are lost and no sign.
    """
    d, slope = g_coefficients(num_labels, g_n, g_r)
    x = (a / g_r).clamp(max=1)
    to_others = (num_labels - 2) * g_r * (x - x.pow(g_n) / d)
    low = a <= g_r
    to_o = torch.where(low, 1 - a - to_others, (1 - a) * (1 - slope))
    return to_o, torch.where(low, to_others, (1 - a) * slope)


def g_coefficients(num_labels: int, g_n: float, g_r: float) -> tuple[float, float]:
    """The d of g, and what others get per 1 - a beyond the turn; parameters are checked."""
    if not (num_labels >= 3 and g_n >= 1 and 0 < g_r < 1):
        raise ValueError(f"expected labels >= 3, exponent >= 1 and turn in (0, 1), got {num_labels}, {g_n} and {g_r}")
    d = g_n - (g_n - 1) * g_r
    others_at_g_r = (num_labels - 2) * g_r * (1 - 1 / d)  # for others, at the turn
    if 1 - g_r - others_at_g_r < 0:
        raise ValueError(
            f"with {num_labels} labels and exponent {g_n}, a turn of {g_r} makes g negative; "
            f"1/(labels-1) and less never does"
        )
    return d, others_at_g_r / (1 - g_r)


def addon_prior(scales: Tensor, wxor_scores: Tensor) -> Tensor:
    """The addon prior Delta.  -> (..., K, L, L) [source, latent, said]

    scales C (..., K, L) [source, query]; table W~ (K, L, L) [source, query, target].
    """
    return (scales[..., None] * wxor_scores).transpose(-1, -2)


def addon_prior_at(scales: Tensor, wxor_scores: Tensor, cells: VoteCells) -> Tensor:
    """Only the labels that are said, for scales (M, K, L).  -> (C, L) [cell, latent]"""
    source_row, label = _cell_index(cells, scales)
    num_sources, num_labels = scales.shape[-2:]
    cell_scales = scales.reshape(-1).index_select(0, source_row * num_labels + label)
    return cell_scales[:, None] * wxor_scores[source_row % num_sources, label]


def addon_row_sums(scales: Tensor, wxor_scores: Tensor) -> Tensor:
    """What Delta adds to each row, sum_j Delta[k, i, j].  (..., K, L) -> (..., K, L)"""
    return torch.einsum("...kq,kqi->...ki", scales, wxor_scores)
