"""The partition function of segmentations as a torch function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from convener.inference.semi_markov import SegmentPotentials, SpanEvidence, segment_posterior


def segment_log_partition(
    labels: Tensor,
    transition: Tensor,
    second: Tensor,
    further: Tensor,
    evidence: SpanEvidence,
    offsets: Tensor,
    *,
    num_threads: int = 1,
) -> Tensor:
    """Log partition function of the segmentations of each sentence, with gradients by the scores.  -> (M,)

    labels (N, L), transition (E+1, E+1), second and further (E,) as in `semi_markov`.
    """
    scores = (labels, transition, second, further)
    result: Tensor = _SegmentPartition.apply(*scores, evidence, offsets, num_threads)  # type: ignore[no-untyped-call]
    return result


class _SegmentPartition(torch.autograd.Function):
    """Computes gradients together with the value."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *scores, evidence, offsets, num_threads = inputs
        potentials = _segment_potentials(scores, evidence)
        result = segment_posterior(potentials, offsets.numpy(), num_threads=num_threads)
        gradients = (result.labels, result.transition, result.second, result.further)
        ctx.save_for_backward(*scores, offsets, *(torch.from_numpy(x) for x in gradients))
        ctx.settings = (evidence, num_threads)
        return torch.from_numpy(result.log_partition).to(scores[0].dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, offsets, gradients = ctx.saved_tensors[:4], ctx.saved_tensors[4], ctx.saved_tensors[5:]
        evidence, num_threads = ctx.settings
        if len(grad) and bool((grad == grad[0]).all()):
            grads = [x * grad[0] for x in gradients]
        else:  # the counts are already summed: only the kernel can weight their terms
            potentials, weights = _segment_potentials(scores, evidence), grad.detach().numpy()
            result = segment_posterior(potentials, offsets.numpy(), weights=weights, num_threads=num_threads)
            counts = [torch.from_numpy(x) for x in (result.transition, result.second, result.further)]
            grads = [gradients[0] * torch.repeat_interleave(grad, offsets.diff())[:, None], *counts]
        return *(x.to(score.dtype) for x, score in zip(grads, scores, strict=True)), None, None, None


def _segment_potentials(scores: Sequence[Tensor], evidence: SpanEvidence) -> SegmentPotentials:
    labels, transition, second, further = (x.detach().numpy() for x in scores)
    return SegmentPotentials(labels, transition, second, further, evidence)
