"""Reference implementations as textbooks and the paper's public code write them.

`chain_objective` is forward-backward: padded, in log space, a loop over time. `TextbookNetwork` is
a training step of Sparse-CHMM's stage 1 with the structure of the public implementation: alpha,
beta and xi are tensors filled step by step by loops over time; votes are one-hot, and the evidence is
their product with the emissions in log space; every emission of every sentence is sampled. With
`careful` it has the optimizations that a careful programmer would make without changing that
structure: an ordinary matrix product for the evidence, steps taken apart once and kept in lists, xi
without a loop. Of the library it uses only the functions h and g.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet

from convener.models.sparse_chmm import prior
from convener.models.sparse_chmm.network import SparseCHMMNetwork


def chain_objective(
    log_initial: Tensor,
    logits: Tensor,
    log_evidence: Tensor,
    lengths: Tensor,
    tau: float,
    *,
    unbound: bool = False,
) -> Tensor:
    """log p(x) - tau H(z|x) of each sentence, by autograd.  -> (B,)

    logits (B, T, L, L), log_evidence (B, T, L), padded.  `unbound` takes the steps apart once instead
    of indexing inside the loop: autograd then need not fill a zero tensor of the whole for each
    step.  At tau = 0 the backward recursion is not needed and left out.
    """
    batch, steps, labels = log_evidence.shape
    log_trans = torch.log_softmax(logits, -1)
    inside = torch.arange(steps)[None] < lengths[:, None]
    if unbound:
        transitions, evidence = log_trans.unbind(1), log_evidence.unbind(1)
    else:
        transitions, evidence = _Indexed(log_trans), _Indexed(log_evidence)  # type: ignore[assignment]
    alpha = log_initial.expand(batch, labels)
    alphas = [alpha]
    for t in range(steps):
        after = torch.logsumexp(alpha[:, :, None] + transitions[t], 1) + evidence[t]
        alpha = torch.where(inside[:, t, None], after, alpha)
        alphas.append(alpha)
    log_p = torch.logsumexp(alpha, -1)
    if tau == 0:
        return log_p
    beta = torch.zeros_like(alpha)
    betas = [beta]
    for t in reversed(range(steps)):
        before = torch.logsumexp(transitions[t] + (evidence[t] + beta)[:, None, :], 2)
        beta = torch.where(inside[:, t, None], before, beta)
        betas.append(beta)
    a, b = torch.stack(alphas, 1), torch.stack(betas[::-1], 1)
    energy = log_trans + log_evidence[:, :, None, :]
    pairs = (a[:, :-1, :, None] + energy + b[:, 1:, None, :] - log_p[:, None, None, None]).exp()
    pairs = torch.where(inside[:, :, None, None], pairs, 0.0)
    first = (a[:, 0] + b[:, 0] - log_p[:, None]).exp()
    expected = (pairs * energy).sum((1, 2, 3)) + (first * log_initial).sum(-1)
    return log_p - tau * (log_p - expected)


class _Indexed:
    """x[:, t] as `self[t]`."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __getitem__(self, t: int) -> Tensor:
        return self.values[:, t]


class TextbookNetwork(nn.Module):
    """Stage 1 of Sparse-CHMM over padded batches, with the weights of a network of ours."""

    def __init__(self, net: SparseCHMMNetwork) -> None:
        super().__init__()
        self.sources, self.labels, self.prior = net.num_sources, net.num_labels, net.prior
        self.g_r = float(net.g_r)
        self.initial = nn.Parameter(net.initial_logits.detach().clone())
        self.transition = nn.Linear(net.transition_layer.in_features, self.labels**2)
        self.reliability = nn.Linear(net.reliability_layer.in_features, net.reliability_layer.out_features)
        self.transition.load_state_dict(net.transition_layer.state_dict())
        self.reliability.load_state_dict(net.reliability_layer.state_dict())
        with torch.no_grad():  # illegal transitions are made unlikely once, by the bias
            self.transition.bias += net.illegal_logits

    def concentrations(self, sentences: Tensor) -> Tensor:
        """(B, D) -> (B, K, L, L) [sentence, source, label, vote]"""
        logits, settings = self.reliability(sentences), self.prior
        scores = prior.reliability_scores(
            logits.view(len(sentences), self.sources, -1), h_n=settings.h_n, h_s=settings.h_s
        )
        scores = prior.expand_to_labels(scores, self.labels)
        base = prior.base_prior(scores, g_n=settings.g_n, g_r=self.g_r)
        return settings.nu_expan * base + settings.nu_base

    def forward(
        self,
        tokens: Tensor,
        sentences: Tensor,
        votes: Tensor,
        lengths: Tensor,
        tau: float,
        *,
        sample: bool = True,
        careful: bool = False,
    ) -> Tensor:
        """Minus the mean objective.  tokens (B, T, D), votes (B, T, K, L) one-hot, lengths (B,)"""
        omega = self.concentrations(sentences)
        phi = Dirichlet(omega).rsample() if sample else omega / omega.sum(-1, keepdim=True)
        log_evidence = (product if careful else log_product)(votes, phi)
        logits = self.transition(tokens).view(*tokens.shape[:2], self.labels, self.labels)
        log_trans = torch.log_softmax(logits, -1)
        objective = listed_objective if careful else filled_objective
        value = objective(torch.log_softmax(self.initial, 0), log_trans, log_evidence, lengths, tau)
        return -value.mean()


def log_product(votes: Tensor, phi: Tensor) -> Tensor:
    """Evidence: the log of Phi x by source, in log space, summed over sources.  -> (B, T, L)"""
    return torch.logsumexp(phi.log()[:, None] + votes.log()[..., None, :], -1).sum(2)


def product(votes: Tensor, phi: Tensor) -> Tensor:
    """The same as an ordinary product: log Phi times one-hot votes.  -> (B, T, L)"""
    return torch.einsum("btkj,bkij->bti", votes, phi.log())


def filled_objective(
    log_initial: Tensor, log_trans: Tensor, log_evidence: Tensor, lengths: Tensor, tau: float
) -> Tensor:
    """log p(x) for tau = 0, Q for tau = 1, of each sentence; tensors filled in place.  -> (B,)

    log_trans (B, T, L, L), log_evidence (B, T, L).
    """
    batch, steps, labels = log_evidence.shape
    alpha = log_evidence.new_zeros(batch, steps + 1, labels)
    alpha[:, 0] = log_initial
    for t in range(steps):
        before = alpha[:, t, :, None] + log_trans[:, t]
        alpha[:, t + 1] = torch.logsumexp(before, 1) + log_evidence[:, t]
    log_p = torch.logsumexp(alpha[torch.arange(batch), lengths], -1)
    if tau == 0:
        return log_p
    inside = torch.arange(steps) < lengths[:, None]
    beta = torch.zeros_like(alpha)
    for t in reversed(range(steps)):
        after = log_trans[:, t] + (log_evidence[:, t] + beta[:, t + 1])[:, None]
        beta[:, t] = torch.where(inside[:, t, None], torch.logsumexp(after, 2), 0.0)
    log_xi = torch.zeros_like(log_trans)
    for t in range(steps):
        after = (log_evidence[:, t] + beta[:, t + 1])[:, None]
        log_xi[:, t] = alpha[:, t, :, None] + log_trans[:, t] + after
    return _mixed(log_initial, log_trans, log_evidence, inside, tau, alpha + beta, log_xi, log_p)


def listed_objective(
    log_initial: Tensor, log_trans: Tensor, log_evidence: Tensor, lengths: Tensor, tau: float
) -> Tensor:
    """The same with care for autograd, whose backward then fills no whole tensor for each step."""
    batch, steps, labels = log_evidence.shape
    inside = torch.arange(steps) < lengths[:, None]
    transitions, evidence = log_trans.unbind(1), log_evidence.unbind(1)
    active = inside.unsqueeze(-1).unbind(1)
    alphas = [log_initial.expand(batch, labels)]
    for t in range(steps):
        alphas.append(torch.logsumexp(alphas[-1][:, :, None] + transitions[t], 1) + evidence[t])
    alpha = torch.stack(alphas, 1)
    log_p = torch.logsumexp(alpha[torch.arange(batch), lengths], -1)
    if tau == 0:
        return log_p
    betas = [torch.zeros_like(alphas[0])]
    for t in reversed(range(steps)):
        before = torch.logsumexp(transitions[t] + (evidence[t] + betas[-1])[:, None], 2)
        betas.append(torch.where(active[t], before, 0.0))
    beta = torch.stack(betas[::-1], 1)
    log_xi = alpha[:, :-1, :, None] + log_trans + (log_evidence + beta[:, 1:])[:, :, None]
    return _mixed(log_initial, log_trans, log_evidence, inside, tau, alpha + beta, log_xi, log_p)


def _mixed(
    log_initial: Tensor,
    log_trans: Tensor,
    log_evidence: Tensor,
    inside: Tensor,
    tau: float,
    log_gamma: Tensor,
    log_xi: Tensor,
    log_p: Tensor,
) -> Tensor:
    """(1 - tau) log p(x) + tau Q, with gradients through gamma and xi, not yet divided.  -> (B,)"""
    xi = torch.where(inside[:, :, None, None], (log_xi - log_p[:, None, None, None]).exp(), 0.0)
    gamma = (log_gamma - log_p[:, None, None]).exp()
    within = torch.where(inside[:, :, None], gamma[:, 1:], 0.0)
    expected = (xi * log_trans).sum((1, 2, 3)) + (within * log_evidence).sum((1, 2))
    expected = expected + (gamma[:, 0] * log_initial).sum(-1)
    return (1 - tau) * log_p + tau * expected
