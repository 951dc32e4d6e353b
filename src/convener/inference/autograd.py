"""The chain objective as a torch function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from convener.inference import chain


def chain_objective(
    log_initial: Tensor,
    transition: Tensor,
    log_evidence: Tensor,
    offsets: Tensor,
    *,
    tau: float = 0.0,
    num_threads: int = 1,
) -> tuple[Tensor, Tensor]:
    """Objective log p(x) - tau H(z|x) of each sentence (M,), with gradients, and its flags (M,).

    With tau = 1 it is Q, Eq. (8), the expectation of Eq. (9); `chain` computes it in the form of Eq. (11).
    log_initial (L,), transition (N, L, L) logits or (L, L) log-probabilities, log_evidence (N, L) and
    offsets (M+1,) as in `chain`; flags are `OK`, `UNDERFLOW` or `IMPOSSIBLE`.
    """
    value, flags = _ChainObjective.apply(log_initial, transition, log_evidence, offsets, tau, num_threads)  # type: ignore[no-untyped-call]
    return value, flags


class _ChainObjective(torch.autograd.Function):
    """Computes gradients together with the value: cheaper than running the forward pass twice."""

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
        inputs, gradients = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        _, transition, _, offsets = inputs
        grad_initial, grad_transition, grad_evidence = gradients
        tau, num_threads = ctx.settings
        if len(grad) and bool((grad == grad[0]).all()):
            if grad[0] != 1:
                grad_initial, grad_transition, grad_evidence = (x * grad[0] for x in gradients)
        elif transition.ndim == 3:
            grad_by_token = torch.repeat_interleave(grad, offsets.diff())
            grad_initial = grad_initial * grad[:, None]
            grad_transition = grad_transition * grad_by_token[:, None, None]
            grad_evidence = grad_evidence * grad_by_token[:, None]
        else:  # the gradient of a constant matrix is already summed: only the kernel can weight its terms
            arrays, weights = [x.detach().numpy() for x in inputs], grad.detach().numpy()
            result = chain.chain_objective(*arrays, tau=tau, weights=weights, num_threads=num_threads)
            grads = (result.grad_initial, result.grad_transition, result.grad_evidence)
            grad_initial, grad_transition, grad_evidence = (torch.from_numpy(x) for x in grads)
        totals = (grad_initial.sum(0), grad_transition, grad_evidence)
        return *(total.to(x.dtype) for total, x in zip(totals, inputs[:3], strict=True)), None, None, None
