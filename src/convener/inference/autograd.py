"""The chain objective for torch: the compiled kernel behind autograd, and a twin in torch alone.

Both take (log_init (L,), trans (N, L, L) logits or (L, L) log-probabilities, log_like (N, L),
offsets (M+1,)), as in `chain`, and return log p(x) - tau H(z|x) of each sentence (M,) and its
flags (M,): 0, `WIDE` or `IMPOSSIBLE`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from convener.inference import _log_pass, chain

# Stands for -inf: far below any score that occurs, and still a number.
_NEVER = -1.0e9


def chain_objective(
    log_initial: Tensor,
    transition: Tensor,
    log_evidence: Tensor,
    offsets: Tensor,
    *,
    tau: float = 0.0,
    num_threads: int = 1,
) -> tuple[Tensor, Tensor]:
    """Objective (M,) with gradients, and flags (M,): the kernel on CPU, the twin elsewhere."""
    if log_evidence.device.type != "cpu":
        return objective_twin(log_initial, transition, log_evidence, offsets, tau=tau, threads=num_threads)
    value, flags = _ChainObjective.apply(log_initial, transition, log_evidence, offsets, tau, num_threads)  # type: ignore[no-untyped-call]
    return value, flags


class _ChainObjective(torch.autograd.Function):
    """Gradients come with the value: they cost less together than the value alone twice."""

    @staticmethod
    def forward(
        ctx: Any,
        log_initial: Tensor,
        transition: Tensor,
        log_evidence: Tensor,
        offsets: Tensor,
        tau: float,
        num_threads: int,
    ) -> tuple[Tensor, Tensor]:
        arrays = [x.detach().numpy() for x in (log_initial, transition, log_evidence, offsets)]
        result = chain.chain_objective(*arrays, tau=tau, num_threads=num_threads)
        grads = [torch.from_numpy(x) for x in (result.grad_initial, result.grad_transition, result.grad_evidence)]
        ctx.save_for_backward(log_initial, transition, log_evidence, offsets, *grads)
        ctx.settings = (tau, num_threads)
        flags = torch.from_numpy(result.flags)
        ctx.mark_non_differentiable(flags)
        return torch.from_numpy(result.value).to(log_evidence.dtype), flags

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (
            log_initial,
            transition,
            log_evidence,
            offsets,
            grad_initial,
            grad_transition,
            grad_evidence,
        ) = ctx.saved_tensors
        tau, num_threads = ctx.settings
        if len(grad) and bool((grad == grad[0]).all()):
            factor = grad[0]
            if factor != 1:
                grad_initial, grad_transition, grad_evidence = (
                    x * factor for x in (grad_initial, grad_transition, grad_evidence)
                )
        elif transition.ndim == 3:
            grad_by_token = torch.repeat_interleave(grad, offsets.diff())
            grad_initial = grad_initial * grad[:, None]
            grad_transition = grad_transition * grad_by_token[:, None, None]
            grad_evidence = grad_evidence * grad_by_token[:, None]
        else:  # the gradient of the one matrix is a sum already: only the kernel can weigh it
            arrays = [x.detach().numpy() for x in (log_initial, transition, log_evidence, offsets)]
            weights = grad.detach().numpy()
            result = chain.chain_objective(*arrays, tau=tau, weights=weights, num_threads=num_threads)
            grads = (result.grad_initial, result.grad_transition, result.grad_evidence)
            grad_initial, grad_transition, grad_evidence = (torch.from_numpy(x) for x in grads)
        total_grad_initial = grad_initial.sum(0).to(log_initial.dtype)
        return (
            total_grad_initial,
            grad_transition.to(transition.dtype),
            grad_evidence.to(log_evidence.dtype),
            None,
            None,
            None,
        )


def objective_twin(
    log_init: Tensor,
    trans: Tensor,
    log_like: Tensor,
    offsets: Tensor,
    *,
    tau: float = 0.0,
    threads: int = 1,
) -> tuple[Tensor, Tensor]:
    """The same in torch operations on any device: log space, sentences padded, autograd.

    The entropy runs along: eta(j), that of the history given z(t) = j, obeys
    eta'(j) = sum_i p(i|j) (eta(i) - log p(i|j)).  `threads` is torch's affair and ignored.
    """
    lengths = offsets.diff()
    steps = int(lengths.max()) if len(lengths) else 0
    log_move = torch.log_softmax(trans, -1) if trans.ndim == 3 else trans
    # A row of -inf has no softmax; nothing leads out of it.
    log_move = torch.nan_to_num(log_move, nan=_NEVER, neginf=_NEVER)
    like = torch.nan_to_num(log_like, nan=torch.nan, neginf=_NEVER)
    alpha = torch.nan_to_num(log_init, nan=torch.nan, neginf=_NEVER).expand(len(lengths), -1)
    eta = torch.zeros_like(alpha)
    padded = _padded(like, offsets, steps) if steps else ()
    moves = _padded(log_move, offsets, steps) if steps and trans.ndim == 3 else None
    for t in range(steps):
        joint = alpha[:, :, None] + (log_move if moves is None else moves[t])
        total = torch.logsumexp(joint, 1)
        live = (lengths > t)[:, None]
        if tau != 0:
            log_p = joint - total[:, None]
            history = (log_p.exp() * (eta[:, :, None] - log_p)).sum(1)
            eta = torch.where(live, history, eta)
        alpha = torch.where(live, total + padded[t], alpha)
    value = torch.logsumexp(alpha, -1)
    flags = torch.where(value < 0.5 * _NEVER, _log_pass.IMPOSSIBLE, 0).to(torch.uint8)
    if tau != 0:
        log_p = alpha - value[:, None]
        value = value - tau * (log_p.exp() * (eta - log_p)).sum(-1)
    return value, flags


def _padded(rows: Tensor, offsets: Tensor, steps: int) -> tuple[Tensor, ...]:
    """Rows of all sentences by step: a tuple of (M, ...), zeros after a sentence's end."""
    place = offsets[:-1] + torch.arange(steps, device=rows.device)[:, None]
    place = torch.where(place < offsets[1:], place, len(rows))
    longer = torch.cat([rows, torch.zeros_like(rows[:1])])
    wide = longer.index_select(0, place.reshape(-1))
    return wide.reshape(*place.shape, *rows.shape[1:]).unbind(0)
