"""The step as the paper and its public implementation have it: padded, log space, autograd.

Alpha, beta and xi are tensors that loops over time fill step by step; votes are one-hot, and the
evidence is their product with the emissions in log space; every emission of every sentence is
drawn. `careful` is the same with what a careful programmer would do for speed and still call it
the textbook's: an ordinary matrix product for the evidence, steps taken apart once and kept in
lists, xi without a loop. Of ours there are only the functions h and g, in torch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet
from torch.nn import functional

from benchmarks.step.shapes import Problem
from convener.models.sparse_chmm.network import SparseCHMMNetwork


class Textbook(nn.Module):
    """Stage 1 of Sparse-CHMM over padded batches, with the weights of a network of ours."""

    def __init__(self, net: SparseCHMMNetwork) -> None:
        super().__init__()
        self.sources, self.labels, self.prior = net.num_sources, net.num_labels, net.prior
        self.turn = float(net.g_r)
        self.initial = nn.Parameter(net.initial_logits.detach().clone())
        self.transition = nn.Linear(net.transition_layer.in_features, self.labels**2)
        self.reliability = nn.Linear(net.reliability_layer.in_features, net.reliability_layer.out_features)
        self.transition.load_state_dict(net.transition_layer.state_dict())
        self.reliability.load_state_dict(net.reliability_layer.state_dict())
        with torch.no_grad():  # illegal moves are made unlikely once, by the bias
            self.transition.bias += net.illegal_logits

    def concentrations(self, sentences: Tensor) -> Tensor:
        """(B, D) -> (B, K, L, L) [sentence, source, latent, said]"""
        logits, prior = self.reliability(sentences), self.prior
        scores = prior.reliability_scores(
            logits.view(len(sentences), self.sources, -1),
            h_n=prior.h_n,
            h_s=prior.h_s,
        )
        scores = prior.expand_to_labels(scores, self.labels)
        whole = prior.base_prior(scores, g_n=prior.g_n, g_r=self.turn)
        return prior.nu_expan * whole + prior.nu_base

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
        log_like = (product if careful else log_product)(votes, phi)
        logits = self.transition(tokens).view(*tokens.shape[:2], self.labels, self.labels)
        log_trans = torch.log_softmax(logits, -1)
        objective = listed_objective if careful else filled_objective
        value = objective(torch.log_softmax(self.initial, 0), log_trans, log_like, lengths, tau)
        return -value.mean()


def log_product(votes: Tensor, phi: Tensor) -> Tensor:
    """Evidence: the log of Phi x by source, in log space, summed over sources.  -> (B, T, L)"""
    return torch.logsumexp(phi.log()[:, None] + votes.log()[..., None, :], -1).sum(2)


def product(votes: Tensor, phi: Tensor) -> Tensor:
    """The same as an ordinary product: log Phi times one-hot votes.  -> (B, T, L)"""
    return torch.einsum("btkj,bkij->bti", votes, phi.log())


def filled_objective(log_init: Tensor, log_trans: Tensor, log_like: Tensor, lengths: Tensor, tau: float) -> Tensor:
    """log p(x) for tau = 0, Q for tau = 1, of each sentence; tensors filled in place.  -> (B,)

    log_trans (B, T, L, L), log_like (B, T, L).
    """
    batch, steps, labels = log_like.shape
    alpha = log_like.new_zeros(batch, steps + 1, labels)
    alpha[:, 0] = log_init
    for t in range(steps):
        before = alpha[:, t, :, None] + log_trans[:, t]
        alpha[:, t + 1] = torch.logsumexp(before, 1) + log_like[:, t]
    log_p = torch.logsumexp(alpha[torch.arange(batch), lengths], -1)
    if tau == 0:
        return log_p
    inside = torch.arange(steps) < lengths[:, None]
    beta = torch.zeros_like(alpha)
    for t in reversed(range(steps)):
        after = log_trans[:, t] + (log_like[:, t] + beta[:, t + 1])[:, None]
        beta[:, t] = torch.where(inside[:, t, None], torch.logsumexp(after, 2), 0.0)
    log_xi = torch.zeros_like(log_trans)
    for t in range(steps):
        after = (log_like[:, t] + beta[:, t + 1])[:, None]
        log_xi[:, t] = alpha[:, t, :, None] + log_trans[:, t] + after
    return _mixed(log_init, log_trans, log_like, inside, tau, alpha + beta, log_xi, log_p)


def listed_objective(log_init: Tensor, log_trans: Tensor, log_like: Tensor, lengths: Tensor, tau: float) -> Tensor:
    """The same with care for autograd, whose backward then fills no whole tensor for each step."""
    batch, steps, labels = log_like.shape
    inside = torch.arange(steps) < lengths[:, None]
    moves, like, live = log_trans.unbind(1), log_like.unbind(1), inside.unsqueeze(-1).unbind(1)
    alphas = [log_init.expand(batch, labels)]
    for t in range(steps):
        alphas.append(torch.logsumexp(alphas[-1][:, :, None] + moves[t], 1) + like[t])
    alpha = torch.stack(alphas, 1)
    log_p = torch.logsumexp(alpha[torch.arange(batch), lengths], -1)
    if tau == 0:
        return log_p
    betas = [torch.zeros_like(alphas[0])]
    for t in reversed(range(steps)):
        before = torch.logsumexp(moves[t] + (like[t] + betas[-1])[:, None], 2)
        betas.append(torch.where(live[t], before, 0.0))
    beta = torch.stack(betas[::-1], 1)
    log_xi = alpha[:, :-1, :, None] + log_trans + (log_like + beta[:, 1:])[:, :, None]
    return _mixed(log_init, log_trans, log_like, inside, tau, alpha + beta, log_xi, log_p)


def _mixed(
    log_init: Tensor,
    log_trans: Tensor,
    log_like: Tensor,
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
    expected = (xi * log_trans).sum((1, 2, 3)) + (within * log_like).sum((1, 2))
    expected = expected + (gamma[:, 0] * log_init).sum(-1)
    return (1 - tau) * log_p + tau * expected


def padded_inputs(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a data loader would hand over: features, one-hot votes and lengths of the batch."""
    batch = problem.batch
    lengths = batch.offsets.diff()
    if int(batch.votes.min()) < 0:
        raise ValueError("one-hot votes cannot say that a source abstains")
    tokens, votes = (
        nn.utils.rnn.pad_sequence(list(x.split(lengths.tolist())), batch_first=True)
        for x in (batch.tokens, batch.votes)
    )
    onehot = functional.one_hot(votes.long(), problem.shape.labels).float()
    return tokens, batch.sentences, onehot, lengths
