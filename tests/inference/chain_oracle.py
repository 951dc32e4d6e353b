"""Oracle of chains: enumeration of all label paths; and random chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Truth:
    """All paths of one sentence: paths (P, T+1), their log joint probability and posterior (P,)."""

    paths: Array
    energy: Array
    log_likelihood: float
    p: Array
    log_transition: Array

    @property
    def entropy(self) -> float:
        seen = self.p > 0
        return float(-(self.p[seen] * (self.energy[seen] - self.log_likelihood)).sum())

    def gradients(self, tau: float, labels: int) -> tuple[Array, Array, Array]:
        """Gradients of log p(x) - tau H by log_init (L,), log transitions (T, L, L) and log evidence (T, L)."""
        seen = self.p > 0
        energy = np.where(seen, self.energy, 0.0)
        q = self.p * (1 + tau * (energy - (self.p * energy).sum()))
        steps = self.paths.shape[1] - 1
        init = np.bincount(self.paths[:, 0], q, labels)
        transitions, like = np.zeros((steps, labels, labels)), np.zeros((steps, labels))
        for t in range(steps):
            np.add.at(transitions[t], (self.paths[:, t], self.paths[:, t + 1]), q)
            np.add.at(like[t], self.paths[:, t + 1], q)
        return init, transitions, like

    def labellings(self) -> tuple[Array, Array]:
        """Distinct labels of the tokens (P', T) and their log joint scores, z(0) summed out."""
        labels, which = np.unique(self.paths[:, 1:], axis=0, return_inverse=True)
        scores = np.full(len(labels), -np.inf)
        np.logaddexp.at(scores, which.reshape(-1), self.energy)
        return labels, scores


def enumerate_paths(log_init: Array, trans: Array, log_like: Array) -> Truth:
    """trans (T, L, L) logits or (L, L) log-probabilities."""
    steps, labels = log_like.shape
    log_init, trans, log_like = (x.astype(np.float64) for x in (log_init, trans, log_like))
    if trans.ndim == 3:
        log_transition = trans - np.logaddexp.reduce(trans, axis=-1, keepdims=True)
    else:
        log_transition = np.broadcast_to(trans, (steps, labels, labels))
    paths = np.indices((labels,) * (steps + 1)).reshape(steps + 1, -1).T
    energy = log_init[paths[:, 0]].copy()
    for t in range(steps):
        energy += log_transition[t, paths[:, t], paths[:, t + 1]] + log_like[t, paths[:, t + 1]]
    total = float(np.logaddexp.reduce(energy))
    return Truth(paths, energy, total, np.exp(energy - total), log_transition)


@dataclass(frozen=True)
class Chain:
    """A packed batch of sentences."""

    log_init: Array
    trans: Array
    log_like: Array
    offsets: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.log_init, self.trans, self.log_like, self.offsets

    @property
    def labels(self) -> int:
        return len(self.log_init)

    def sentence(self, m: int) -> tuple[Array, Array, Array]:
        rows = slice(self.offsets[m], self.offsets[m + 1])
        trans = self.trans[rows] if self.trans.ndim == 3 else self.trans
        return self.log_init, trans, self.log_like[rows]

    def truth(self, m: int) -> Truth:
        return enumerate_paths(*self.sentence(m))

    def alone(self, m: int) -> Chain:
        log_init, trans, log_like = self.sentence(m)
        return Chain(log_init, trans, log_like, np.array([0, len(log_like)]))


def random_chain(
    seed: int,
    labels: int,
    lengths: list[int],
    *,
    spread: float = 3.0,
    constant: bool = False,
    holes: bool = False,
    dtype: Any = np.float64,
) -> Chain:
    """Scores within `spread` nats, half of them at the limits; holes are transitions of -inf."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))]).astype(np.int64)

    def scores(*shape: int) -> Array:
        x = rng.random(shape)
        return -spread * np.where(rng.random(shape) < 0.5, x, np.round(x))

    trans = scores(labels, labels) if constant else scores(int(offsets[-1]), labels, labels)
    if holes:
        trans = np.where(rng.random(trans.shape) < 0.2, -np.inf, trans)
        trans[..., 0] = np.where(np.isneginf(trans[..., 0]), 0.0, trans[..., 0])
    if constant:
        trans = trans - np.logaddexp.reduce(trans, axis=-1, keepdims=True)
    log_init = np.log(rng.dirichlet(np.ones(labels)))
    like = scores(int(offsets[-1]), labels)
    return Chain(*(x.astype(dtype) for x in (log_init, trans, like)), offsets)


def chains(dtype: Any, spread: float, longest: int = 6) -> st.SearchStrategy[Chain]:
    """Batches of small sentences, empty ones among them."""

    def build(draw: tuple[int, int, list[int], float, bool, bool]) -> Chain:
        seed, labels, lengths, share, constant, holes = draw
        # Five labels and six tokens are 78,125 paths: enough for one sentence.
        lengths = [min(t, 4) for t in lengths] if labels > 3 and len(lengths) > 1 else lengths
        return random_chain(
            seed, labels, lengths, spread=share * spread, constant=constant, holes=holes,
            dtype=dtype,
        )  # fmt: skip

    return st.tuples(
        st.integers(0, 2**32 - 1),
        st.integers(2, 5),
        st.lists(st.integers(0, longest), min_size=1, max_size=4),
        st.sampled_from([0.0, 0.02, 0.3, 1.0]),
        st.booleans(),
        st.booleans(),
    ).map(build)
