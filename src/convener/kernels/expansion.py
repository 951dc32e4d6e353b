"""From reliability scores to emissions: the functions h and g, the base and the addon prior.

A score a = A~[k, i] is how surely source k says label i where it is true; a prior spreads what is
left of each row over the other labels, most of it over O.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from convener.kernels.said import Said

EDGE = 1e-6
"""u of the scaling function stays this far from 0 and 1, where slopes may be infinite."""


def scaled(shares: Tensor, *, steepness: float, root: float, turn: float) -> Tensor:
    """The scaling function h: scores from shares in [0, 1], of any shape.

    With u = a^(1/root), h(a) = u^n / r^(n-1) below the turn and 1 - (1-u)^n / (1-r)^(n-1) above.
    steepness n > 0 is the paper's h_n: above 1, small values get smaller and large ones larger;
    root > 0 is its h_s: above 1, all get larger; turn r in (0, 1), on the scale of u, is its h_r.
    u is held within [1e-6, 1 - 1e-6], and its gradient is 0 beyond.

    >>> scaled(torch.tensor([0.04, 0.25, 0.49]), steepness=2, root=2, turn=0.5)
    tensor([0.0800, 0.5000, 0.8200])
    """
    check_scaling(steepness, root, turn)
    # The slope of a root at 0 is infinite, and nan after the clamp.
    u = shares.clamp(min=torch.finfo(shares.dtype).tiny).pow(1 / root).clamp(EDGE, 1 - EDGE)
    low = turn ** (1 - steepness) * u.pow(steepness)
    high = 1 - (1 - turn) ** (1 - steepness) * (1 - u).pow(steepness)
    return torch.where(u < turn, low, high)


def unscaled(scores: Tensor, *, steepness: float, root: float, turn: float) -> Tensor:
    """The inverse of `scaled`: shares from scores in [0, 1], of any shape."""
    check_scaling(steepness, root, turn)
    low = (turn ** (steepness - 1) * scores).pow(1 / steepness)
    high = 1 - ((1 - turn) ** (steepness - 1) * (1 - scores)).pow(1 / steepness)
    u = torch.where(scores < turn, low, high)  # h(r) = r
    return u.clamp(EDGE, 1 - EDGE).pow(root)


def check_scaling(steepness: float, root: float, turn: float) -> None:
    """Refuse parameters that h does not have."""
    if not (steepness > 0 and root > 0 and 0 < turn < 1):
        raise ValueError(
            "expected steepness > 0, root > 0 and turn in (0, 1), "
            f"got {steepness}, {root} and {turn}"
        )


def reliability_scores(
    logits: Tensor,
    *,
    steepness: float = 1.0,
    root: float = 1.0,
    turn: float | None = None,
    softmax: bool = True,
) -> Tensor:
    """Reliability scores A~.  logits (..., K, 1+C) -> (..., K, 1+C), O and then the other columns

    O: sigmoid.  Others: softmax over the K sources, then h, whose turn is 1/K if not given.  With
    steepness and root 1, h changes nothing (the ablation "without h"); without softmax, a sigmoid
    stands in its place.  A single source has sigmoids and no h.
    """
    sources = logits.shape[-2]
    outside, others = logits[..., :1].sigmoid(), logits[..., 1:]
    others = others.softmax(-2) if softmax and sources > 1 else others.sigmoid()
    if sources > 1 and (steepness, root) != (1, 1):
        turn = 1 / sources if turn is None else turn
        others = scaled(others, steepness=steepness, root=root, turn=turn)
    return torch.cat([outside, others], -1)


def logits_for(
    scores: Tensor,
    *,
    steepness: float = 1.0,
    root: float = 1.0,
    turn: float | None = None,
    softmax: bool = True,
) -> Tensor:
    """Logits whose reliability scores are these, or near them.  (..., K, 1+C) -> the same

    O, a single source, and all without softmax: exact within [1e-6, 1 - 1e-6].  Otherwise h is
    inverted, and the logits are the logs of the shares a found, up to the constant that a softmax
    does not see: exact where the shares of all sources sum to 1.  Where they do not, all are
    divided by their sum.  Of all shares that sum to 1 these have the smallest largest error of
    log a, and keep the order of the sources and the ratios of their shares.
    """
    sources = scores.shape[-2]
    wanted = scores.double()
    outside, others = wanted[..., :1], wanted[..., 1:]
    if sources > 1 and (steepness, root) != (1, 1):
        turn = 1 / sources if turn is None else turn
        others = unscaled(others, steepness=steepness, root=root, turn=turn)
    if softmax and sources > 1:
        others = others.clamp(min=torch.finfo(torch.float32).tiny).log()
    else:
        others = others.logit(EDGE)
    return torch.cat([outside.logit(EDGE), others], -1).to(scores.dtype)


def by_label(scores: Tensor, labels: int) -> Tensor:
    """Scores of labels from those of O and entity types; B-x and I-x share.  (..., 1+E) -> (..., L)

    Scores that are by label already stay as they are.

    >>> by_label(torch.tensor([0.9, 0.5, 0.7]), labels=5)
    tensor([0.9000, 0.5000, 0.5000, 0.7000, 0.7000])
    """
    check_columns(scores.shape[-1], labels)
    if scores.shape[-1] == labels:
        return scores
    return torch.cat([scores[..., :1], scores[..., 1:].repeat_interleave(2, -1)], -1)


def check_columns(columns: int, labels: int) -> None:
    """Refuse scores that are neither by label nor by entity type."""
    if columns not in (labels, (labels + 1) / 2):
        raise ValueError(f"expected {labels} or {labels // 2 + 1} scores, got {columns}")


class Rows(NamedTuple):
    """A prior in which all wrong labels but O are alike: three numbers for each row (..., K, L)."""

    right: Tensor
    """What the row gives to its own label."""
    outside: Tensor
    """What it gives to O; nothing of it is used in the row of O itself."""
    other: Tensor
    """What it gives to each label that is neither."""

    def dense(self) -> Tensor:
        """All of the prior.  -> (..., K, L, L) [source, latent, said]"""
        labels = self.right.shape[-1]
        spread = self.other[..., None].expand(*self.other.shape, labels - 1)
        whole = torch.cat([self.outside[..., None], spread], -1)
        own = torch.eye(labels, dtype=torch.bool, device=whole.device)
        return torch.where(own, self.right[..., None], whole)

    def columns(self, said: Said) -> Tensor:
        """Only the labels that are said, for scores (M, K, L).  -> (C, L) [cell, latent]"""
        pair, label = _places(said, self.right)
        labels = self.right.shape[-1]
        either = torch.cat([x.reshape(-1, labels) for x in (self.outside, self.other)])
        column = either.index_select(0, pair + len(said.usual) * (label > 0))
        own = self.right.reshape(-1).index_select(0, pair * labels + label)
        return column.scatter(1, label[:, None], own[:, None])


def _places(said: Said, like: Tensor) -> tuple[Tensor, Tensor]:
    """Pair and label of each cell, as indices where `like` is."""
    pair = torch.as_tensor(said.pair, device=like.device)
    return pair, torch.as_tensor(said.label, device=like.device).long()


def base_rows(scores: Tensor, *, exponent: float, turn: float) -> Rows:
    """The base prior Lambda by rows.  scores (..., K, L) in [0, 1]; g's parameters as in `outside`

    Rows are non-negative and sum to 1, whatever the scores, for all parameters that `outside`
    accepts.
    """
    labels = scores.shape[-1]
    to_outside, to_others = _expanded(scores[..., 1:], labels, exponent, turn)
    first = scores[..., :1]
    return Rows(
        scores,
        torch.cat([first, to_outside], -1),
        torch.cat([(1 - first) / (labels - 1), to_others / (labels - 2)], -1),
    )


def naive_rows(scores: Tensor) -> Rows:
    """The prior of the ablation "naive emission": what is wrong is uniform.  scores (..., K, L)"""
    even = (1 - scores) / (scores.shape[-1] - 1)
    return Rows(scores, even, even)


def base_prior(scores: Tensor, *, exponent: float, turn: float) -> Tensor:
    """The base prior Lambda.  scores (..., K, L) -> (..., K, L, L) [source, latent, said]

    >>> base_prior(torch.tensor([[0.9, 0.6, 0.0]]), exponent=4, turn=0.1)
    tensor([[[0.9000, 0.0500, 0.0500],
             [0.3676, 0.6000, 0.0324],
             [1.0000, 0.0000, 0.0000]]])
    """
    return base_rows(scores, exponent=exponent, turn=turn).dense()


def outside(scores: Tensor, *, labels: int, exponent: float, turn: float) -> Tensor:
    """The function g: how much of a row with score a in [0, 1] goes to O.  Of any shape

    g(a) = c a^n + (1-L) a + 1 up to the turn r, with the c that makes it smooth there, and a
    straight line to g(1) = 0 from there on.  exponent n >= 1 is the paper's g_n: the larger, the
    less goes to O; turn r in (0, 1) is its g_r, as such and not as a share of 1/L.  What is left
    for other labels, 1 - a - g(a), is never negative; g itself is not if g(r) >= 0, as it is for
    every r <= 1/(L-1).  Other parameters, and fewer than 3 labels, are refused.
    """
    return _expanded(scores, labels, exponent, turn)[0]


def _expanded(a: Tensor, labels: int, exponent: float, turn: float) -> tuple[Tensor, Tensor]:
    """g(a), and 1 - a - g(a).

    With x = a/r and d = n - (n-1) r, which is 1 or more, the latter is (L-2) r (x - x^n / d) up to
    the turn: so written, no digits are lost and no sign.
    """
    d, slope = bend(labels, exponent, turn)
    x = (a / turn).clamp(max=1)
    others = (labels - 2) * turn * (x - x.pow(exponent) / d)
    low = a <= turn
    to_outside = torch.where(low, 1 - a - others, (1 - a) * (1 - slope))
    return to_outside, torch.where(low, others, (1 - a) * slope)


def bend(labels: int, exponent: float, turn: float) -> tuple[float, float]:
    """The d of g, and what others get per 1 - a beyond the turn; parameters are checked."""
    if not (labels >= 3 and exponent >= 1 and 0 < turn < 1):
        raise ValueError(
            "expected labels >= 3, exponent >= 1 and turn in (0, 1), "
            f"got {labels}, {exponent} and {turn}"
        )
    d = exponent - (exponent - 1) * turn
    left = (labels - 2) * turn * (1 - 1 / d)  # for others, at the turn
    if 1 - turn - left < 0:
        raise ValueError(
            f"with {labels} labels and exponent {exponent}, a turn of {turn} makes g negative; "
            f"1/(labels-1) and less never does"
        )
    return d, left / (1 - turn)


def addon_prior(scales: Tensor, table: Tensor) -> Tensor:
    """The addon prior Delta.  -> (..., K, L, L) [source, latent, said]

    scales C (..., K, L) [source, query]; table W~ (K, L, L) [source, query, target].
    """
    return (scales[..., None] * table).transpose(-1, -2)


def addon_columns(scales: Tensor, table: Tensor, said: Said) -> Tensor:
    """Only the labels that are said, for scales (M, K, L).  -> (C, L) [cell, latent]"""
    pair, label = _places(said, scales)
    sources, labels = scales.shape[-2:]
    own = scales.reshape(-1).index_select(0, pair * labels + label)
    return own[:, None] * table[pair % sources, label]


def addon_totals(scales: Tensor, table: Tensor) -> Tensor:
    """What Delta adds to each row, sum_j Delta[k, i, j].  (..., K, L) -> (..., K, L)"""
    return torch.einsum("...kq,kqi->...ki", scales, table)
