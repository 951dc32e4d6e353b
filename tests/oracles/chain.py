"""Reference of the chain objective: log space, padded sentences, gradients by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from convener.inference._log_pass import IMPOSSIBLE, LOG_ZERO


def chain_objective_reference(
    log_initial: Tensor, transition: Tensor, log_evidence: Tensor, offsets: Tensor, *, tau: float = 0.0
) -> tuple[Tensor, Tensor]:
    """log p(x) - tau H(z|x) of each sentence (M,) and its flags (M,), as `autograd.chain_objective`.

    The entropy is computed along the forward pass: eta(j), the entropy of the history given z(t) = j,
    satisfies eta'(j) = sum_i p(i|j) (eta(i) - log p(i|j)).
    """
    lengths = offsets.diff()
    num_steps = int(lengths.max()) if len(lengths) else 0
    log_transition = torch.log_softmax(transition, -1) if transition.ndim == 3 else transition
    # A row of -inf has no softmax; no path leaves it.
    log_transition = torch.nan_to_num(log_transition, nan=LOG_ZERO, neginf=LOG_ZERO)
    evidence = torch.nan_to_num(log_evidence, nan=torch.nan, neginf=LOG_ZERO)
    alpha = torch.nan_to_num(log_initial, nan=torch.nan, neginf=LOG_ZERO).expand(len(lengths), -1)
    eta = torch.zeros_like(alpha)
    evidence_steps = _padded_steps(evidence, offsets, num_steps) if num_steps else ()
    transition_steps = _padded_steps(log_transition, offsets, num_steps) if num_steps and transition.ndim == 3 else None
    for t in range(num_steps):
        joint = alpha[:, :, None] + (log_transition if transition_steps is None else transition_steps[t])
        total = torch.logsumexp(joint, 1)
        is_token = (lengths > t)[:, None]
        if tau != 0:
            log_p = joint - total[:, None]
            history = (log_p.exp() * (eta[:, :, None] - log_p)).sum(1)
            eta = torch.where(is_token, history, eta)
        alpha = torch.where(is_token, total + evidence_steps[t], alpha)
    value = torch.logsumexp(alpha, -1)
    flags = torch.where(value < 0.5 * LOG_ZERO, IMPOSSIBLE, 0).to(torch.uint8)
    if tau != 0:
        log_p = alpha - value[:, None]
        value = value - tau * (log_p.exp() * (eta - log_p)).sum(-1)
    return value, flags


def _padded_steps(rows: Tensor, offsets: Tensor, num_steps: int) -> tuple[Tensor, ...]:
    """Rows of all sentences by step: a tuple of (M, ...), zeros after the end of a sentence."""
    index = offsets[:-1] + torch.arange(num_steps)[:, None]
    index = torch.where(index < offsets[1:], index, len(rows))
    extended = torch.cat([rows, torch.zeros_like(rows[:1])])
    padded = extended.index_select(0, index.reshape(-1))
    return padded.reshape(*index.shape, *rows.shape[1:]).unbind(0)
