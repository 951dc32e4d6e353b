"""The forward-backward algorithm as textbooks write it: padded, in log space, a loop over time."""

from __future__ import annotations

import torch
from torch import Tensor


def textbook(
    log_init: Tensor,
    logits: Tensor,
    log_like: Tensor,
    lengths: Tensor,
    tau: float,
    *,
    unbound: bool = False,
) -> Tensor:
    """log p(x) - tau H(z|x) of each sentence, by autograd.  -> (B,)

    logits (B, T, L, L), log_like (B, T, L), padded.  `unbound` takes the steps apart once instead
    of indexing inside the loop: autograd then need not fill a zero tensor of the whole for each
    step.  At tau = 0 the backward recursion is not needed and left out.
    """
    batch, steps, labels = log_like.shape
    log_trans = torch.log_softmax(logits, -1)
    inside = torch.arange(steps)[None] < lengths[:, None]
    if unbound:
        moves, like = log_trans.unbind(1), log_like.unbind(1)
    else:
        moves, like = _Indexed(log_trans), _Indexed(log_like)  # type: ignore[assignment]
    alpha = log_init.expand(batch, labels)
    alphas = [alpha]
    for t in range(steps):
        after = torch.logsumexp(alpha[:, :, None] + moves[t], 1) + like[t]
        alpha = torch.where(inside[:, t, None], after, alpha)
        alphas.append(alpha)
    log_p = torch.logsumexp(alpha, -1)
    if tau == 0:
        return log_p
    beta = torch.zeros_like(alpha)
    betas = [beta]
    for t in reversed(range(steps)):
        before = torch.logsumexp(moves[t] + (like[t] + beta)[:, None, :], 2)
        beta = torch.where(inside[:, t, None], before, beta)
        betas.append(beta)
    a, b = torch.stack(alphas, 1), torch.stack(betas[::-1], 1)
    energy = log_trans + log_like[:, :, None, :]
    pairs = (a[:, :-1, :, None] + energy + b[:, 1:, None, :] - log_p[:, None, None, None]).exp()
    pairs = torch.where(inside[:, :, None, None], pairs, 0.0)
    first = (a[:, 0] + b[:, 0] - log_p[:, None]).exp()
    expected = (pairs * energy).sum((1, 2, 3)) + (first * log_init).sum(-1)
    return log_p - tau * (log_p - expected)


class _Indexed:
    """x[:, t] as `self[t]`."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __getitem__(self, t: int) -> Tensor:
        return self.values[:, t]
