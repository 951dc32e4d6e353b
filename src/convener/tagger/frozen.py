"""A tagger on frozen features: seconds to train, anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from convener.data import Dataset
from convener.encode import AUTO, Encoder, again, ensured
from convener.errors import ConfigError
from convener.features import Encoding, Scaling
from convener.io import checkpoint
from convener.nets.crf import CRF, Chain
from convener.nets.moves import Look
from convener.nets.tokens import TokenNet
from convener.packed import stretches
from convener.settings import at_least
from convener.tagger.base import Tagged, Tagger, TaggerConfig
from convener.tagger.losses import expected_cross_entropy
from convener.tagger.schedule import digest_of_weights, schedule_of
from convener.tagger.spelling import spelled, speller_of
from convener.tagger.targets import Targets, Weights, checked_weights
from convener.tags import TagSet
from convener.train.chain import Decoded, decoded
from convener.train.loop import Stage, parts_of, run
from convener.train.neural import BLOCK
from convener.train.packing import Batch, Packing, features_of
from convener.train.start import load_weights, weights_of


@dataclass(frozen=True, kw_only=True)
class FrozenConfig(TaggerConfig):
    """Settings of a tagger on frozen features."""

    encoder: str = AUTO
    """Encodes text that comes without features: auto, hashing, minilm, mpnet, a folder, or a name
    on a hub. For settings of the encoder, encode the data first: `convener.encode`."""
    epochs: int = 20
    batch: int = 8
    lr: float = 1e-3
    decay: float = 1e-5
    context: int = 1
    """Neighbours on either side that a token's label is read off, too."""
    dropout: float = 0.2
    """Share of the features that a training step leaves out."""
    hidden: int = 128
    """Width of a hidden layer; 0 for none."""
    spelling: int = 512
    """Numbers that tell a word's spelling, beside its features; 0 for none."""
    crf: bool = True
    """Learn also which label follows which: a conditional random field over the sentence."""
    class_weights: Weights = None
    """What an error on a label counts: "balanced", or by type, such as {"PER": 2, "O": 0.5}."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "lr", "decay", "context", "hidden", "spelling")
        at_least(self, 1, "threads")
        object.__setattr__(self, "class_weights", checked_weights(self.class_weights))
        if self.crf and self.class_weights is not None:
            raise ConfigError("class_weights count tokens, a crf whole sentences: set crf=False")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")


@dataclass(frozen=True, eq=False)
class Reader:
    """A network, and the features it knows: an encoder's and, if it has one, a speller's."""

    net: TokenNet
    encoding: Encoding
    speller: Encoder | None
    scaling: Scaling


class FrozenTagger(Tagger[Reader]):
    """A linear layer, or one hidden layer, on the features of a token and its neighbours.

    Features are an encoder's and, beside them, a sketch of the word's spelling. With e of both,
    s[t] = sum_j W_j e[t+j] + b, and p(labels) ~ exp(sum_t s[t, l(t)] + A[l(t-1), l(t)]), where A
    is the field's, or zero without one. Trained by the expected log-likelihood of the targets,
    neighbours drawn by themselves; the labels are the best legal path.

    >>> data = Dataset.from_spans(
    ...     ["PER"], [["Ada", "met", "Bo"]] * 20, {}, gold=[[(0, 1, "PER"), (2, 3, "PER")]] * 20
    ... )
    >>> tagger = FrozenTagger(encoder="hashing").fit(Targets.of_gold(data))
    >>> tagger.predict(data).tags()[0]
    ['B-PER', 'O', 'B-PER']
    """

    Config = FrozenConfig
    kind = "frozen"
    summary = "a small network on features of an encoder that stays as it is"

    def learn(self, train: Targets, valid: Targets, start: Reader | None) -> Reader:
        """One stage of the loop that trains all networks."""
        config = self.config
        torch.set_num_threads(config.threads)
        speller = speller_of(config.spelling) if start is None else start.speller
        known = None if start is None else start.encoding
        features = features_of(spelled(self._encoded(train.data, known), speller))
        scaling = Scaling.of(features) if start is None else start.scaling
        train = train.with_features(features.scaled(scaling))
        net = self._net(features.width, train.data.tags)
        if start is not None:
            net.load_state_dict(start.net.state_dict())
        counted = train.class_weights(config.class_weights)
        weights = torch.from_numpy(counted)

        def loss(batch: Batch, generator: Generator) -> Tensor:
            # What is given of a token is how much of it is of each label.
            scores, shares = net.scores(batch, generator), batch.given
            if net.crf is None:
                return expected_cross_entropy(scores, shares, weights)
            found = net.crf.expected_log_likelihood(scores, shares, batch.offsets)
            return -found.sum() / max(1, len(shares))

        stage = Stage(
            name="tokens",
            loss=loss,
            packing=Packing.of(train.data, train.shares(), seed=config.seed),
            trains=parts_of(net),
            lr=config.lr,
            epochs=config.epochs,
            patience=config.patience,
        )
        reader = Reader(net, features.encoding, speller, scaling)
        blocks = list(self._blocks(reader, valid.data))
        schedule = schedule_of(
            self,
            train,
            valid,
            say=lambda: self._tagged(net, blocks, valid.data),
            weights=counted,
            origin=digest_of_weights(net),
            batch=config.batch,
        )
        run(net, [stage], schedule)
        return reader

    def infer(self, state: Reader, data: Dataset) -> Tagged:
        """The best legal path, probabilities, and how probable each span is."""
        return self._tagged(state.net, self._blocks(state, data), data)

    def write(self, state: Reader, folder: Path) -> dict[str, Any]:
        """Weights and scaling as arrays; what made the features by its digest."""
        arrays = {f"net.{name}": array for name, array in weights_of(state.net).items()}
        arrays |= {f"scaling.{name}": array for name, array in state.scaling._asdict().items()}
        checkpoint.write_arrays(folder, arrays)
        speller = None if state.speller is None else state.speller.encoding.to_json()
        return {"encoding": state.encoding.to_json(), "spelling": speller}

    def read(self, folder: Path, facts: Mapping[str, Any]) -> Reader:
        """Back from arrays and the encoders' names."""
        arrays = checkpoint.read_arrays(folder)
        scaling, weights = (checkpoint.under(part, arrays) for part in ("scaling.", "net."))
        net = self._net(len(scaling["token_mean"]), TagSet(tuple(facts["types"])))
        load_weights(net, weights)
        known = facts["spelling"]
        speller = None if known is None else again(Encoding.from_json(known))
        return Reader(net, Encoding.from_json(facts["encoding"]), speller, Scaling(**scaling))

    def _net(self, width: int, tags: TagSet) -> TokenNet:
        config = self.config
        look = Look(context=config.context, dropout=config.dropout)
        crf = None
        if config.crf:
            legal, begins = (torch.from_numpy(each) for each in (tags.legal, tags.legal_start))
            crf = CRF(len(tags), legal, begins)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            return TokenNet(width, len(tags), look, hidden=config.hidden, crf=crf)

    def _encoded(self, data: Dataset, encoding: Encoding | None) -> Dataset:
        """With features of the encoder that is known already, or of the one in the settings."""
        return ensured(data, self.config.encoder, encoding, whose=self.name)

    def _blocks(self, reader: Reader, data: Dataset) -> Iterator[tuple[Dataset, Packing]]:
        """Blocks of a dataset, with their features in memory."""
        data = self._encoded(data, reader.encoding)
        for start, stop in pairwise(stretches(data.offsets, BLOCK).tolist()):
            block = spelled(data[start:stop], reader.speller)
            scaled = features_of(block).scaled(reader.scaling)
            yield block, Packing.of(block.with_features(scaled))

    def _tagged(
        self, net: TokenNet, blocks: Iterable[tuple[Dataset, Packing]], data: Dataset
    ) -> Tagged:
        """What the network says of all blocks of some data."""
        with torch.no_grad():
            found = [self._decoded(net, packing.batch(), part) for part, packing in blocks]
        return Tagged(*Decoded.joined(found, len(data.tags)))

    def _decoded(self, net: TokenNet, batch: Batch, data: Dataset) -> Decoded:
        scores, size = net.scores(batch), len(data.tags)
        if net.crf is None:
            chain = Chain(scores.new_zeros(size), scores.new_zeros(size, size), scores)
        else:
            chain = net.crf.chain(scores, batch.offsets)
        begin, moves, evidence = (part.numpy() for part in chain)
        return decoded(moves, evidence, data, self.config.threads, begin=begin)
