"""BERT-NER: a tagger trained on gold, a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convener import tagger as taggers
from convener.data import Dataset
from convener.errors import DataError
from convener.features import Encoding
from convener.models.base import FeatureConfig, Inference, LabelModel, Params
from convener.settings import at_least
from convener.tagger import Tagger, Targets
from convener.tagger.packed import packed, unpacked

UNTRAINABLE = "hashing"


@dataclass(frozen=True, kw_only=True)
class BertNERConfig(FeatureConfig):
    """Settings of BERT-NER."""

    finetune: bool | None = None
    """Train the encoder as a whole, or a small network on its frozen features. By default as a
    whole, where the encoder has weights: hashing has none."""
    epochs: int | None = None
    """At most so many epochs; by default those of the tagger."""
    lr: float | None = None
    """Learning rate; by default the tagger's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "epochs")
        at_least(self, 0, "lr")


class BertNER(LabelModel):
    """A tagger that learns from the gold of train and stops by the gold of valid.

    It marks what a tagger could learn if the labels were right, and reads no vote: in prediction
    it sees the text alone (Li et al. 2022, "fully supervised"). See `convener.tagger`.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 15 + [[]] * 5},
    ...     gold=[[(0, 2, "PER")]] * 20,
    ... )
    >>> BertNER(encoder="hashing").fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = BertNERConfig
    summary = "reference: a tagger trained on gold, which reads text and no votes"
    supervised = True
    needs_features = True

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Train the tagger, or train it on; the files it saves are the parameters."""
        if train.gold is None:
            raise DataError(f"{self.name} is a reference that needs gold, and train has none")
        tagger = self._tagger() if start is None else unpacked(start)
        held = None if valid is None or valid.gold is None else Targets.of_gold(valid)
        tagger.fit(Targets.of_gold(train), held, journal=self.journal)
        return packed(tagger)

    def infer(self, params: Params, data: Dataset) -> Inference:
        """What the tagger says of the text."""
        found = unpacked(params).predict(data)
        return Inference(found.labels, found.by_sentence().values, found.scores)

    @property
    def finetunes(self) -> bool:
        """Whether the encoder is trained."""
        chosen = self.config.finetune
        return self.config.encoder != UNTRAINABLE if chosen is None else bool(chosen)

    def _tagger(self) -> Tagger[Any]:
        config = self.config
        names = ("seed", "encoder", "epochs", "lr")
        settings = {name: getattr(config, name) for name in names}
        chosen = {name: value for name, value in settings.items() if value is not None}
        return taggers.get("finetuned" if self.finetunes else "frozen")(**chosen)

    def _encoded_by(self, data: Dataset, encoding: Encoding | None) -> Dataset:
        """Features for the small network only: an encoder that is trained reads words."""
        return data.with_features(None) if self.finetunes else super()._encoded_by(data, encoding)
