"""BERT-NER: a tagger trained on gold, a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convener import taggers
from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.features import EncoderSpec
from convener.errors import DataError
from convener.models.base import FeatureConfig, LabelModel, LabelOutput
from convener.models.fitted import Params
from convener.taggers.base import Tagger, tagger_from_arrays, tagger_to_arrays
from convener.taggers.targets import Targets

UNTRAINABLE_ENCODER = "hashing"


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
        check_min(self, 1, "epochs")
        check_min(self, 0, "lr")


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

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Train the tagger, or train it on; the files it saves are the parameters."""
        if train.gold is None:
            raise DataError(f"{self.name} is a reference that needs gold, and train has none")
        tagger = self._build_tagger() if previous is None else tagger_from_arrays(previous)
        validation = None if valid is None or valid.gold is None else Targets.from_gold(valid)
        tagger.fit(Targets.from_gold(train), validation, checkpoint_dir=self.checkpoint_dir)
        return tagger_to_arrays(tagger)

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """What the tagger says of the text."""
        predictions = tagger_from_arrays(params).predict(data)
        return LabelOutput(
            predictions.labels,
            predictions.probabilities_by_sentence().values,
            predictions.span_scores,
        )

    @property
    def fine_tunes(self) -> bool:
        """Whether the encoder is trained."""
        setting = self.config.finetune
        return self.config.encoder != UNTRAINABLE_ENCODER if setting is None else bool(setting)

    def _build_tagger(self) -> Tagger[Any]:
        config = self.config
        names = ("seed", "encoder", "epochs", "lr")
        settings = {name: getattr(config, name) for name in names}
        overrides = {name: value for name, value in settings.items() if value is not None}
        return taggers.get_tagger("finetuned" if self.fine_tunes else "frozen")(**overrides)

    def _encode_with(self, data: Dataset, encoder_spec: EncoderSpec | None) -> Dataset:
        """Features for the small network only: an encoder that is trained reads words."""
        return data.with_features(None) if self.fine_tunes else super()._encode_with(data, encoder_spec)
