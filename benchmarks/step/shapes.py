"""The five shapes: real votes and lengths where the data is at hand, features random."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
import torch

import convener as cv
from benchmarks.chain.shapes import SHAPES, Shape, drawn_lengths
from benchmarks.record import DATA
from convener.data.features import EncoderSpec, Features
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.inference._numba import Array
from convener.models.majority_vote import MajorityVote, baseline_labels
from convener.models.sparse_chmm.model import SparseCHMMConfig
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.training import SparseInitialMatrices, add_majority_source, build_network
from convener.neural.batch import Batch, PackedDataset

WIDTH = 768
SPREAD = 0.02
"""Of the weights: logits then vary between tokens by half a nat or so, as after some epochs."""
GENERATOR = (
    "OntoNotes is not at hand: 18 types, lengths 1 + Poisson(Gamma(shape 2.2, mean 17)), at most "
    "120; each source begins a span of one of its 6 types at 0.5 to 1.5 % of the tokens, which "
    "goes on with probability 0.5, so that it marks about 1 to 3 % of them"
)


@dataclass(frozen=True, eq=False)
class Problem:
    """One shape, laid out for training, and the settings and network that train on it."""

    shape: Shape
    config: SparseCHMMConfig
    packing: PackedDataset
    net: SparseCHMMNetwork
    """The paper's: moves of the token alone, no dropout."""
    wide: SparseCHMMNetwork
    """The default: moves see neighbours, features are left out."""

    @property
    def batch(self) -> Batch:
        """All of the packing, as the loop takes batches from it: views."""
        return self.packing.batch(0, self.shape.batch)


def problems(seed: int) -> list[Problem]:
    """All shapes whose data is there; the others are named."""
    found = []
    for shape in SHAPES:
        if shape.folder is not None and not (DATA / shape.folder).is_dir():
            print(f"{shape.name}: {DATA / shape.folder} is not there; skipped", file=sys.stderr)
            continue
        found.append(problem(shape, seed))
    return found


def problem(shape: Shape, seed: int) -> Problem:
    """A usual batch; the network as training starts it, but with random weights."""
    rng = np.random.default_rng(seed)
    data = _generated(shape, rng) if shape.folder is None else _train(shape, rng)
    config = SparseCHMMConfig(seed=seed, context=0, dropout=0.0, base=0.5)
    columns = shape.labels if shape.labels == 3 else 1 + shape.labels // 2
    nets = []
    for settings in (config, SparseCHMMConfig(seed=seed, base=0.5)):
        net = build_network(settings, data, columns)
        SparseInitialMatrices(config, data, baseline_labels(data), columns, float(net.nu_base)).initialize(net)
        chance = torch.Generator().manual_seed(seed)
        for part in (net.transition_layer, net.reliability_layer):
            torch.nn.init.normal_(part.weight, std=SPREAD, generator=chance)
        nets.append(net)
    return Problem(shape, config, PackedDataset.from_dataset(data), *nets)


def _train(shape: Shape, rng: np.random.Generator) -> cv.Dataset:
    """Sentences of train, or of valid where that is all, with the sources of the paper."""
    corpus = cv.read(DATA / str(shape.folder))
    data = corpus.train if "train" in corpus else corpus.valid.split(0.8)[0]
    data = data.take(usual_batch(data.lengths, shape.batch, rng))
    if len(data.sources) == shape.sources - 1:  # the paper's majority vote is a source, too
        vote = MajorityVote(scheme="bio", ties="random", seed=0)
        data = add_majority_source(data, vote._infer({}, data).labels)
    if (len(data.tags), len(data.sources)) != (shape.labels, shape.sources):
        raise SystemExit(f"{shape.name}: expected {shape}, got {data}")
    return _with_features(data, rng)


def usual_batch(lengths: Array, size: int, rng: np.random.Generator) -> Array:
    """Of the batches of one epoch, that whose longest sentence is of median length.  -> (size,)"""
    batches = rng.permutation(len(lengths))[: len(lengths) // size * size].reshape(-1, size)
    longest = lengths[batches].max(axis=1)
    chosen: Array = batches[np.argsort(longest, kind="stable")[len(batches) // 2]]
    return chosen


def _generated(shape: Shape, rng: np.random.Generator) -> cv.Dataset:
    lengths = drawn_lengths(99 * shape.batch, rng)
    lengths = lengths[usual_batch(lengths, shape.batch, rng)]
    offsets, types = lengths_to_offsets(lengths), shape.labels // 2
    count = int(offsets[-1])
    tags = cv.TagSet(tuple(f"T{n}" for n in range(types)))
    votes = np.zeros((count, shape.sources), np.int16)
    for source, rate in enumerate(rng.uniform(0.005, 0.015, shape.sources)):
        own = rng.choice(types, 6, replace=False)
        said = np.where(rng.random(count) < rate, 2 * rng.choice(own, count) + 1, 0)
        for t in range(1, count):
            if said[t] == 0 and said[t - 1] > 0 and rng.random() < 0.5:
                said[t] = said[t - 1] + said[t - 1] % 2
        votes[:, source] = tags.repair(said.astype(np.int16), offsets, "drop")[0]
    data = cv.Dataset(
        tags=tags,
        tokens=StringArray(np.full(count, ord("w"), np.uint8), np.arange(count + 1)),
        offsets=offsets,
        sources=tuple(f"source-{n}" for n in range(shape.sources)),
        votes=votes,
        silence=("O",) * shape.sources,
    )
    return _with_features(data, rng)


def _with_features(data: cv.Dataset, rng: np.random.Generator) -> cv.Dataset:
    """Standard normal ones, as standardised ones are on average; speed does not see the rest."""
    tokens = rng.standard_normal((len(data.tokens), WIDTH), np.float32)
    sentences = rng.standard_normal((len(data), WIDTH), np.float32)
    return replace(data, features=Features(tokens, sentences, EncoderSpec("random", "")))
