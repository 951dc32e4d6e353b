"""BERT-NER: a tagger trained on gold, a reference."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convener import taggers
from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.features import EncoderSpec
from convener.data.predictions import LabelOutput
from convener.errors import DataError
from convener.models.base import FeatureConfig, LabelModel
from convener.models.fitted import Params
from convener.taggers.base import TAGGER_FOLDER, Tagger
from convener.taggers.targets import Targets

UNTRAINABLE_ENCODER = "hashing"


@dataclass(frozen=True, kw_only=True)
class BertNERConfig(FeatureConfig):
    """Settings of BERT-NER."""

    fine_tune: bool | None = None
    """Train the encoder as a whole, or a small network on its frozen features. By default as a whole, where the encoder
    has weights: hashing has none."""
    max_epochs: int | None = None
    """Maximum number of epochs, at least 1; by default that of the tagger."""
    learning_rate: float | None = None
    """Learning rate, at least 0; by default that of the tagger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "max_epochs")
        check_min(self, 0, "learning_rate")


class BertNER(LabelModel):
    """A tagger trained on the gold labels of train, with early stopping by the gold labels of valid.

    It shows what a tagger reaches with correct labels. It uses no votes, and in prediction only the text (Li et al.
    2022, "fully supervised"). See `convener.taggers`.

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
    config: BertNERConfig
    summary = "reference: a tagger trained on gold labels; uses text, no votes"
    supervised = True
    needs_features = True

    @init_with(BertNERConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Tagger[Any] | None, checkpoint_dir: Path | None
    ) -> tuple[Tagger[Any], Diagnostics]:
        """Train a tagger, or continue to train the previous one."""
        if train.gold is None:
            raise DataError(f"{self.name} needs gold labels; train has none")
        tagger = self._build_tagger() if previous is None else deepcopy(previous)
        validation = None if valid is None or valid.gold is None else Targets.from_gold(valid)
        tagger.fit(Targets.from_gold(train), validation, checkpoint_dir=checkpoint_dir)
        return tagger, Diagnostics()

    def _infer(self, params: Tagger[Any], data: Dataset) -> LabelOutput:
        """The predictions of the tagger."""
        predictions = params.predict(data)
        return LabelOutput(
            predictions.labels,
            predictions.probabilities_by_sentence().values,
            predictions.span_scores,
        )

    def _save_params(self, params: Tagger[Any], folder: Path) -> tuple[dict[str, Any], Params]:
        """The tagger in a folder of its own."""
        params.save(folder / TAGGER_FOLDER)
        return {}, {}

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> Tagger[Any]:
        """The saved tagger."""
        return taggers.load_tagger(folder / TAGGER_FOLDER)

    @property
    def fine_tunes(self) -> bool:
        """Whether the encoder is fine-tuned."""
        setting = self.config.fine_tune
        return self.config.encoder != UNTRAINABLE_ENCODER if setting is None else bool(setting)

    def _build_tagger(self) -> Tagger[Any]:
        config = self.config
        names = ("seed", "encoder", "max_epochs", "learning_rate")
        settings = {name: getattr(config, name) for name in names}
        overrides = {name: value for name, value in settings.items() if value is not None}
        return taggers.get_tagger("finetuned" if self.fine_tunes else "frozen")(**overrides)

    def _encode_with(self, data: Dataset, encoder_spec: EncoderSpec | None) -> Dataset:
        """Features for the frozen tagger only: a fine-tuned encoder reads tokens."""
        return data.with_features(None) if self.fine_tunes else super()._encode_with(data, encoder_spec)
