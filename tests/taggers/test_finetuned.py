"""The fine-tuned tagger, on tiny encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.taggers.finetuned import FinetunedTagger, WindowedTargets
from convener.taggers.targets import Targets
from tests.models.kills import killed_at

from . import toys
from .toys import UNUSUAL_SENTENCES, f1, soft_predictions, unlabeled

Tiny = Callable[[str], Path]
QUICK: dict[str, Any] = {
    "max_epochs": 5,
    "learning_rate": 5e-3,
    "head_learning_rate": 1e-2,
    "batch_size": 8,
    "num_threads": 1,
}


def sentences(count: int, seed: int = 0) -> cv.Dataset:
    """Sentences with spans of one word: a tiny encoder without pretraining learns little about neighbors."""
    return toys.sentences(count, seed, longest=1)


def make_tagger(folder: Path, **changes: Any) -> FinetunedTagger:
    return FinetunedTagger(encoder=str(folder), **(QUICK | changes))


def weight_bytes(tagger: FinetunedTagger) -> dict[str, bytes]:
    state = tagger.fitted.state.model.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


@pytest.mark.parametrize("architecture", ["distilbert", "roberta"])
@pytest.mark.parametrize("source", ["from_soft_labels", "from_hard_labels"])
def test_it_learns_labels_that_depend_on_the_text(tiny: Tiny, architecture: str, source: str) -> None:
    targets = getattr(Targets, source)(soft_predictions(sentences(150)))
    tagger = make_tagger(tiny(architecture)).fit(targets)
    assert f1(tagger, sentences(60, seed=1)) > 0.9
    assert tagger.predict(unlabeled(UNUSUAL_SENTENCES)).uses_gold == "none"


def test_all_weights_of_the_encoder_are_trained(tiny: Tiny) -> None:
    tagger = make_tagger(tiny("distilbert"), max_epochs=1).fit(Targets.from_gold(sentences(40)))
    start, _ = make_tagger(tiny("distilbert"))._initial_model(Targets.from_gold(sentences(1)), None)
    after = tagger.fitted.state.model.state_dict()
    same = [name for name, w in start.model.state_dict().items() if torch.equal(w, after[name])]
    # The key bias adds a constant to all scores of a query, so its gradient is zero.
    assert [name for name in same if "k_lin.bias" not in name] == []


def test_the_first_subword_has_the_label_of_the_word(tiny: Tiny) -> None:
    """Equals transformers, sentence by sentence and word by word."""
    data = sentences(5)
    targets = Targets.from_gold(data)
    loaded, _ = make_tagger(tiny("distilbert"))._initial_model(targets, None)
    words = [["unbelievable", "cat", "\u200b", "owners"], [], ["mat", "unbelievable" * 3]]
    data = unlabeled(words)
    label_probs = np.random.default_rng(0).random((len(data.tokens), 5)).astype(np.float32)
    targets = Targets(data=data, labels=np.zeros(len(data.tokens), np.int16), probabilities=label_probs)
    (batch,) = WindowedTargets.from_targets(targets, loaded, overlap=0.5).batches(8)
    ids = batch.inputs.input_ids.reshape(-1)[batch.first_subwords].tolist()
    expected, rows = [], []
    for number, sentence in enumerate(words):
        encoding = loaded.tokenizer(sentence, is_split_into_words=True)
        first_ids: dict[int, int] = {}
        for position, word in enumerate(encoding.word_ids()):
            if word is not None:
                first_ids.setdefault(word, encoding["input_ids"][position])
        expected += list(first_ids.values())
        rows += [int(data.offsets[number]) + word for word in first_ids]
    assert ids == expected
    assert len(rows) == len(data.tokens) - 1  # all but the zero-width space
    np.testing.assert_array_equal(batch.label_probs.numpy(), label_probs[rows])


def test_batches_contain_every_window_once(tiny: Tiny) -> None:
    targets = Targets.from_gold(sentences(53))
    loaded, _ = make_tagger(tiny("distilbert"))._initial_model(targets, None)
    windowed = WindowedTargets.from_targets(targets, loaded, overlap=0.5)
    batches = list(windowed.batches(8, np.random.default_rng(1)))
    assert len(batches) == -(-53 // 8)
    seen = np.concatenate([batch.inputs.windows for batch in batches])
    assert sorted(seen.tolist()) == list(range(53))
    assert sum(len(batch) for batch in batches) == 53
    again = np.concatenate([b.inputs.windows for b in windowed.batches(8, np.random.default_rng(2))])
    assert seen.tolist() != again.tolist()


def test_a_word_without_a_subword_is_outside(tiny: Tiny) -> None:
    tagger = make_tagger(tiny("distilbert")).fit(Targets.from_gold(sentences(60)))
    found = tagger.predict(unlabeled([["\u200b", "Oslo", "\u200b"], ["\u200b"]]))
    assert found.labels.tolist()[0::2] == [0, 0]
    assert found.labels.tolist()[1] == 1
    assert found.probabilities is not None
    assert found.probabilities[0].tolist() == [1, 0, 0, 0, 0]


def test_sentences_longer_than_a_window(tiny: Tiny) -> None:
    tagger = make_tagger(tiny("distilbert"), max_length=32).fit(Targets.from_gold(sentences(120)))
    long = ["the", "Oslo", "sat"] * 60
    found = tagger.predict(unlabeled([long])).labels
    assert np.mean(found.reshape(-1, 3) == [0, 1, 0]) > 0.95
    many = cv.Dataset.from_spans(["LOC", "ANI"], [long] * 3, {}, gold=[[(1, 2, "LOC")]] * 3)
    assert len(make_tagger(tiny("distilbert"), max_epochs=1).fit(Targets.from_gold(many)).predict(many)) == 3


def test_a_sentence_is_labeled_independently_of_the_others(tiny: Tiny) -> None:
    data = sentences(30)
    tagger = make_tagger(tiny("roberta"), max_epochs=1).fit(Targets.from_gold(data))
    together, alone = (
        tagger.predict(data).probabilities_by_sentence(),
        tagger.predict(data.take([7])),
    )
    np.testing.assert_allclose(together[7], alone.probabilities_by_sentence()[0], atol=1e-5)


def test_weights_depend_on_the_seed_but_not_on_the_global_generator(tiny: Tiny) -> None:
    targets = Targets.from_soft_labels(soft_predictions(sentences(30)))
    found = []
    for draws in (1, 5):
        torch.rand(draws)
        found.append(weight_bytes(make_tagger(tiny("distilbert"), max_epochs=2).fit(targets)))
    assert found[0] == found[1]
    assert weight_bytes(make_tagger(tiny("distilbert"), max_epochs=2, seed=9).fit(targets)) != found[0]


@pytest.mark.parametrize("step", [3, 9, 14])
def test_interrupted_training_resumes_with_the_same_result(tiny: Tiny, tmp_path: Path, step: int) -> None:
    targets = Targets.from_soft_labels(soft_predictions(sentences(40)))
    uninterrupted = weight_bytes(make_tagger(tiny("distilbert")).fit(targets))
    with killed_at(step):
        make_tagger(tiny("distilbert")).fit(targets, checkpoint_dir=tmp_path)
    assert weight_bytes(make_tagger(tiny("distilbert")).fit(targets, checkpoint_dir=tmp_path)) == uninterrupted


def test_fit_continues_from_the_fitted_state(tiny: Tiny) -> None:
    targets = Targets.from_gold(sentences(120))
    tagger = make_tagger(tiny("distilbert")).fit(targets)
    old, before = tagger.fitted.state.model, weight_bytes(tagger)
    tagger.config = FinetunedTagger(encoder=str(tiny("distilbert")), max_epochs=1, learning_rate=1e-6).config
    tagger.fit(Targets.from_soft_labels(soft_predictions(sentences(20, seed=6))), targets)
    assert f1(tagger, sentences(40, seed=5)) > 0.9
    kept = {name: tensor.numpy().tobytes() for name, tensor in old.state_dict().items()}
    assert kept == before  # the earlier state is not modified


def test_saving_and_loading_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    tagger = make_tagger(tiny("roberta"), class_weights="balanced").fit(Targets.from_gold(sentences(60)))
    tagger.save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    data = unlabeled(UNUSUAL_SENTENCES)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    np.testing.assert_array_equal(loaded.predict(data).probabilities, tagger.predict(data).probabilities)
    assert loaded.predict(data).uses_gold == "train"


def test_an_encoder_without_weights_is_rejected() -> None:
    with pytest.raises(cv.ConfigError, match="'hashing' has no weights to train"):
        FinetunedTagger(encoder="hashing").fit(Targets.from_gold(sentences(5)))


def test_weights_of_another_encoder_are_rejected(tiny: Tiny, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "mixed"
    shutil.copytree(tiny("distilbert"), folder)
    shutil.copy(tiny("roberta") / "model.safetensors", folder)
    with pytest.raises(cv.DataError, match=r"the weights do not match config\.json"):
        make_tagger(folder).fit(Targets.from_gold(sentences(5)))


@pytest.mark.parametrize(
    "invalid",
    [
        {"warmup_ratio": 0},
        {"warmup_ratio": 1},
        {"max_grad_norm": 0},
        {"learning_rate": -1},
        {"max_length": 3},
        {"num_threads": 0},
    ],
)
def test_invalid_settings_are_rejected(invalid: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(invalid))):
        FinetunedTagger(**invalid)


def test_the_default_learning_rate_depends_on_the_hidden_size(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("convener.taggers.finetuned.train_network", lambda _, stages, __: seen.extend(stages))
    for lr in (None, 3e-5):
        make_tagger(tiny("distilbert"), learning_rate=lr).fit(Targets.from_gold(sentences(5)))
    assert [stage.learning_rate for stage in seen] == [5e-4, 3e-5]


def test_default_batch_size_and_epochs_depend_on_the_amount_of_text(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(_: object, stages: list[Any], training_run: Any) -> None:
        seen.append((training_run.batch_size, stages[0].max_epochs))

    monkeypatch.setattr("convener.taggers.finetuned.train_network", run)
    for words, count, batch, epochs in (
        (5, 100, None, None),
        (60, 100, None, None),
        (60, 100, 1, None),
        (60, 100, 3, 2),
    ):
        data = cv.Dataset.from_spans(["PER"], [["cat"] * words] * count, {}, gold=[[]] * count)
        targets = Targets.from_gold(data)
        make_tagger(tiny("distilbert"), batch_size=batch, max_epochs=epochs).fit(targets, targets)
    # 7 batches of 16, 12 of 9, 100 of one: 300 steps, or five epochs, whichever is more.
    assert seen == [(16, 43), (9, 25), (1, 5), (3, 2)]


def test_weights_are_float32_in_any_precision(tiny: Tiny) -> None:
    targets, test = Targets.from_gold(sentences(150)), sentences(60, seed=1)
    found = {}
    for precision in ("float32", "bfloat16"):
        tagger = make_tagger(tiny("distilbert"), compute_dtype=precision).fit(targets)
        assert f1(tagger, test) > 0.9
        assert {w.dtype for w in tagger.fitted.state.model.parameters()} == {torch.float32}
        found[precision] = weight_bytes(tagger)
    assert found["float32"] != found["bfloat16"]


def test_a_saved_tagger_is_an_encoder(tiny: Tiny, tmp_path: Path) -> None:
    data = sentences(40)
    make_tagger(tiny("distilbert"), max_epochs=1).fit(Targets.from_gold(data)).save(tmp_path / "tagger")
    before, after = (
        cv.encode(data, str(folder), layers="last", cache=False).features
        for folder in (tiny("distilbert"), tmp_path / "tagger")
    )
    assert before.dim == after.dim
    assert not np.array_equal(before.tokens, after.tokens)
    voted = data.with_sources(("list",), data.gold[:, None], ("abstain",))
    model = cv.ConNet(encoder=str(tmp_path / "tagger"), max_epochs=1).fit(voted)
    assert f1(model, voted) > 0.9
