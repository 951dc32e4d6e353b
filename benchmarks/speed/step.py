"""`python -m benchmarks.speed.step`: one training step of Sparse-CHMM, and whole fits.

CPU time of one thread; the step alternates with a textbook implementation and the bare linear layer.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before the libraries are loaded: one thread each
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

import convener as cv
from benchmarks.harness.cli import available, simple_parser
from benchmarks.harness.data import DATA, DEMO, filler_tokens, is_available, make_dataset, splits
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import WINDOW, median_times
from benchmarks.paper import recipes
from benchmarks.speed.batches import Array, Shape, available_shapes, draw_lengths, training_data
from benchmarks.speed.textbook import TextbookNetwork
from convener.data.features import EncoderSpec, Features
from convener.data.ragged import lengths_to_offsets
from convener.models.initialization import complete_coarse_spans
from convener.models.majority_vote import MajorityVote, baseline_labels
from convener.models.neural_chain import WEIGHT_DECAY, chain_loss
from convener.models.sparse_chmm.model import SparseCHMMConfig
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.training import SparseInitialMatrices, add_majority_source, build_network
from convener.neural.batch import Batch, PackedDataset
from convener.neural.training import Stage, TrainingRun, _build_optimizer, parameter_groups

WIDTH = 768
WEIGHT_STD = 0.02
"""Logits then vary between tokens by about half a nat, as after some epochs."""
LEARNING_RATE = 1e-12
"""Every step does all its work, and the next finds the weights unchanged."""
MAX_DIFFERENCE = 1e-3
"""Relative difference of the objectives that is allowed."""
TARGETS = {"NCBI": (25, 1.7), "Laptop": (12, 3.0), "BC5CDR": (60, 1.7), "CoNLL": (30, 3.0), "OntoNotes": (30, 2.2)}
"""Least ratio to the textbook's time, and greatest ratio to the layer's."""
FIT_TARGETS = {"NCBI-Disease": 30, "BC5CDR": 45}
"""CPU seconds that a whole fit may take."""
FIT_ENCODER, FIT_SEED = "minilm", 1
GENERATOR = (
    "OntoNotes is not available: 18 types, lengths 1 + Poisson(Gamma(shape 2.2, mean 17)), at most "
    "120; each source begins a span of one of its 6 types at 0.5 to 1.5 % of the tokens, which "
    "continues with probability 0.5, so that it marks about 1 to 3 % of them"
)
NOTE = (
    f"One step of stage 1 (forward, backward, Adam), width {WIDTH}, float32, the paper's transitions: "
    "median CPU time of one thread in ms, implementations alternate. Real votes and lengths, of the "
    "batch of an epoch whose longest sentence is of median length; features are standard normal, as "
    f"speed does not depend on them; {GENERATOR}. textbook: the public implementation's structure "
    "(padded, log space, alpha, beta and xi filled by loops over time, one-hot votes times emissions "
    "in log space, all emissions sampled, autograd), but exact; for tau = 0 only the forward recursion. "
    "careful: the same with an ordinary product for the evidence, lists instead of filled tensors, "
    "xi without a loop. Their padding is made beforehand and not counted. convener: as "
    "`neural.training` does it; with context: the same with the default's context window and dropout. "
    "layer: the transitions' linear layer alone, forward and backward under "
    "a fixed gradient, and fused Adam. Learning rates are almost zero, so that every step is the "
    "same. difference: the largest relative difference of the textbooks' objectives from ours, with "
    f"mean emissions. Whole fits: default settings, cached features of {FIT_ENCODER}."
)
Step = Callable[[], float]


@dataclass(frozen=True, eq=False)
class Problem:
    """One batch, packed for training, with the networks that are trained on it."""

    shape: Shape
    packed: PackedDataset
    net: SparseCHMMNetwork
    """The paper's: transitions depend on the token alone, no dropout."""
    context_net: SparseCHMMNetwork
    """The default: transitions depend on neighbours, too, and features are dropped out."""

    @property
    def batch(self) -> Batch:
        """The whole batch, as training takes it: views."""
        return self.packed.batch(0, self.shape.batch)


def make_problem(shape: Shape, seed: int) -> Problem:
    """A typical batch; networks as at the start of training, but with random weights."""
    rng = np.random.default_rng(seed)
    data = _generated(shape, rng) if shape.data is None else _real(shape, rng)
    config = SparseCHMMConfig(seed=seed, **recipes.STEP_PLAIN)
    labels, nets = complete_coarse_spans(data, baseline_labels(data)), []
    for settings in (config, SparseCHMMConfig(seed=seed, **recipes.STEP_CONTEXT)):
        net = build_network(settings, data)
        initial = SparseInitialMatrices(config, data, labels, float(net.nu_base))
        initial.initialize(net)
        generator = Generator().manual_seed(seed)
        for layer in (net.transition_layer, net.reliability_layer):
            nn.init.normal_(layer.weight, std=WEIGHT_STD, generator=generator)
        nets.append(net)
    return Problem(shape, PackedDataset.from_dataset(data), *nets)


def _real(shape: Shape, rng: np.random.Generator) -> cv.Dataset:
    """Training sentences with the sources of the paper."""
    data = training_data(shape)
    data = data.take(typical_batch(data.lengths, shape.batch, rng))
    if len(data.sources) == shape.sources - 1:  # the paper's majority vote is a source, too
        vote = MajorityVote(scheme="bio", tie_break="random", seed=0).fit(data)
        data = add_majority_source(data, vote.predict(data).labels)
    if (len(data.tags), len(data.sources)) != (shape.labels, shape.sources):
        raise SystemExit(f"{shape.name}: expected {shape}, got {data}")
    return _with_features(data, rng)


def typical_batch(lengths: Array, size: int, rng: np.random.Generator) -> Array:
    """Of the batches of one epoch, the one whose longest sentence is of median length.  -> (size,)"""
    batches = rng.permutation(len(lengths))[: len(lengths) // size * size].reshape(-1, size)
    longest = lengths[batches].max(axis=1)
    chosen: Array = batches[np.argsort(longest, kind="stable")[len(batches) // 2]]
    return chosen


def _generated(shape: Shape, rng: np.random.Generator) -> cv.Dataset:
    lengths = draw_lengths(99 * shape.batch, rng)
    lengths = lengths[typical_batch(lengths, shape.batch, rng)]
    offsets, num_types = lengths_to_offsets(lengths), shape.labels // 2
    count, types = int(offsets[-1]), tuple(f"T{n}" for n in range(num_types))
    tags, votes = cv.TagSet(types), np.zeros((count, shape.sources), np.int16)
    for source, rate in enumerate(rng.uniform(0.005, 0.015, shape.sources)):
        own = rng.choice(num_types, 6, replace=False)
        column = np.where(rng.random(count) < rate, 2 * rng.choice(own, count) + 1, 0)
        for t in range(1, count):
            if column[t] == 0 and column[t - 1] > 0 and rng.random() < 0.5:
                column[t] = column[t - 1] + column[t - 1] % 2
        votes[:, source] = tags.repair(column.astype(np.int16), offsets, "drop")[0]
    return _with_features(make_dataset(types, filler_tokens(count), offsets, votes), rng)


def _with_features(data: cv.Dataset, rng: np.random.Generator) -> cv.Dataset:
    tokens = rng.standard_normal((len(data.tokens), WIDTH), np.float32)
    sentences = rng.standard_normal((len(data), WIDTH), np.float32)
    return replace(data, features=Features(tokens, sentences, EncoderSpec("random", "")))


def training_steps(problem: Problem, tau: float) -> dict[str, Step]:
    """Complete training steps by name."""
    return {
        "textbook": _textbook_step(problem, tau),
        "careful": _textbook_step(problem, tau, careful=True),
        "convener": _our_step(problem, problem.net, tau),
        "with context": _our_step(problem, problem.context_net, tau),
        "layer": _layer_step(problem),
    }


def _our_step(problem: Problem, net: SparseCHMMNetwork, tau: float) -> Step:
    """What training does with a batch in stage 1."""
    stage = Stage(
        name="transition and reliability",
        loss=chain_loss(net, tau, sample=True),
        data=problem.packed,
        trains=tuple(name for name in parameter_groups(net) if name != "addon_layer"),
        learning_rate=LEARNING_RATE,
        max_epochs=1,
        patience=1,
    )
    run_settings = TrainingRun(name="step", seed=0, batch_size=problem.shape.batch, weight_decay=WEIGHT_DECAY)
    optimizer = _build_optimizer(net, stage, run_settings)
    generator = Generator().manual_seed(0)

    def run() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = stage.loss(problem.batch, generator)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    return run


def _textbook_step(problem: Problem, tau: float, *, careful: bool = False) -> Step:
    net, inputs = TextbookNetwork(problem.net), padded_inputs(problem)
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def run() -> float:
        optimizer.zero_grad()
        loss = net(*inputs, tau, careful=careful)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return run


def _layer_step(problem: Problem) -> Step:
    """The linear layer of the transitions alone, over the same tokens, under a fixed gradient.

    Adam is fused, as ours is, so that the lower bound is as low as possible.
    """
    tokens = problem.batch.tokens
    layer = nn.Linear(tokens.shape[1], problem.shape.labels**2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    gradient = torch.randn(len(tokens), problem.shape.labels**2)

    def run() -> float:
        optimizer.zero_grad()
        layer(tokens).backward(gradient)
        optimizer.step()
        return 0.0

    return run


def padded_inputs(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The inputs of the textbook: padded features, one-hot votes and lengths of the batch."""
    batch = problem.batch
    lengths = batch.offsets.diff()
    if int(batch.votes.min()) < 0:
        raise ValueError("one-hot votes cannot express that a source abstains")
    tokens, votes = (
        nn.utils.rnn.pad_sequence(list(x.split(lengths.tolist())), batch_first=True)
        for x in (batch.tokens, batch.votes)
    )
    onehot = functional.one_hot(votes.long(), problem.shape.labels).float()
    return tokens, batch.sentences, onehot, lengths


def objective_difference(problem: Problem, tau: float) -> float:
    """Largest relative difference of either textbook's objective from ours, with mean emissions."""
    net, inputs = TextbookNetwork(problem.net), padded_inputs(problem)
    with torch.no_grad():
        ours: Tensor = chain_loss(problem.net, tau, sample=False)(problem.batch, Generator())
        theirs = [net(*inputs, tau, sample=False, careful=careful) for careful in (False, True)]
    return max(abs(float(value) / float(ours) - 1) for value in theirs)


def compare(tau: float, problems: list[Problem], rounds: int, window: float) -> cv.Table:
    """One row per shape: sizes, times and ratios."""
    rows: list[list[Any]] = []
    for problem in problems:
        shape, batch = problem.shape, problem.batch
        difference = objective_difference(problem, tau)
        if difference > MAX_DIFFERENCE:
            raise SystemExit(f"{shape.name}: the objectives differ by {difference:.0e}")
        times = median_times(training_steps(problem, tau), rounds, window=window)
        ours, (least, greatest) = times["convener"], TARGETS.get(shape.name, (None, None))
        size = f"B {shape.batch}, L {shape.labels}, K {shape.sources}"
        sizes = [size, len(batch.tokens), int(batch.offsets.diff().max())]
        ratios = [times["textbook"] / ours, least, times["careful"] / ours]
        rows.append([shape.name, *sizes, *times.values(), *ratios, ours / times["layer"], greatest, difference])
    names = ("textbook", "careful", "convener", "with context", "layer")
    ratios = ("textbook / convener", "careful / convener", "convener / layer")
    columns = ["shape", "size", "tokens", "longest", *names]
    columns += [ratios[0], "at least", *ratios[1:], "at most", "difference"]
    formats = dict.fromkeys(names, ".1f") | dict.fromkeys(ratios[:2], ".1f")
    formats |= {ratios[2]: ".2f", "at most": ".1f", "difference": ".0e"}
    objective = "log p(x)" if tau == 0 else "log p(x) - H(z|x)"
    return cv.Table(title=f"{objective}, tau {tau:g}", columns=columns, rows=rows, formats=formats)


def whole_fits(*, smoke: bool) -> cv.Table:
    """CPU time of whole fits, features given; one row per data set."""
    rows: list[list[Any]] = []
    names, encoder = ((DEMO,), "hashing") if smoke else (tuple(FIT_TARGETS), FIT_ENCODER)
    for name in available(names, is_available, f"not in {DATA}"):
        data, model = splits(name, encoder), cv.get_model("sparse-chmm")
        model(seed=FIT_SEED, **recipes.ONE_EPOCH).fit(data.train[:50], data.valid[:50])  # compiles
        settings = recipes.ONE_EPOCH if smoke else {}
        begin = time.process_time()
        fitted = model(seed=FIT_SEED, **settings).fit(data.train, data.valid, use_valid_gold=True)
        seconds = time.process_time() - begin
        f1 = cv.evaluate(fitted.predict(data.test), data.test).f1
        rows.append([name, len(data.train), len(data.train.tokens), seconds, FIT_TARGETS.get(name), f1])
    return cv.Table(
        title="Three stages, gold of valid for stopping",
        columns=["data", "sentences", "tokens", "CPU s", "at most", "test F1"],
        rows=rows,
        formats={"CPU s": ".1f", "test F1": ".2%"},
    )


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.step", __doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args(argv)
    rounds, window = (1, 0.0) if args.smoke else (args.rounds, WINDOW)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cv.ConvenerWarning)
            problems = [make_problem(shape, args.seed) for shape in available_shapes(smoke=args.smoke)]
            tables = [compare(tau, problems, rounds, window) for tau in (1.0, 0.0)]
            tables.append(whole_fits(smoke=args.smoke))
    finally:
        torch.set_num_threads(threads)
    save_tables(results, "speed/step", tables, seed=args.seed, packages=("numba", "torch"), note=NOTE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
