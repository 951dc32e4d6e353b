"""The tagger that trains its encoder, on encoders that are made here."""

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
from .toys import HARD, believed, f1, text

Tiny = Callable[[str], Path]
QUICK: dict[str, Any] = {"epochs": 5, "lr": 5e-3, "head_lr": 1e-2, "batch": 8, "threads": 1}


def sentences(count: int, seed: int = 0) -> cv.Dataset:
    """With spans of one word: what is tiny and was never trained learns little of neighbours."""
    return toys.sentences(count, seed, longest=1)


def new(folder: Path, **changes: Any) -> FinetunedTagger:
    return FinetunedTagger(encoder=str(folder), **(QUICK | changes))


def weights(tagger: FinetunedTagger) -> dict[str, bytes]:
    state = tagger.fitted.state.model.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
@pytest.mark.parametrize("how", ["from_soft_labels", "from_hard_labels"])
def test_it_learns_what_text_decides(tiny: Tiny, kind: str, how: str) -> None:
    targets = getattr(Targets, how)(believed(sentences(150)))
    tagger = new(tiny(kind)).fit(targets)
    assert f1(tagger, sentences(60, seed=1)) > 0.9
    assert "saw_gold" not in tagger.predict(text(HARD)).settings


def test_all_of_the_encoder_moves(tiny: Tiny) -> None:
    tagger = new(tiny("distilbert"), epochs=1).fit(Targets.from_gold(sentences(40)))
    start, _ = new(tiny("distilbert"))._initial_model(Targets.from_gold(sentences(1)), None)
    after = tagger.fitted.state.model.state_dict()
    same = [name for name, w in start.model.state_dict().items() if torch.equal(w, after[name])]
    # A bias of keys adds the same to all scores of a query, so nothing can move it.
    assert [name for name in same if "k_lin.bias" not in name] == []


def test_the_first_piece_of_a_word_has_its_label(tiny: Tiny) -> None:
    """Against plain transformers, a sentence and a word at a time."""
    data = sentences(5)
    targets = Targets.from_gold(data)
    loaded, _ = new(tiny("distilbert"))._initial_model(targets, None)
    words = [["unbelievable", "cat", "\u200b", "owners"], [], ["mat", "unbelievable" * 3]]
    odd = text(words)
    shares = np.random.default_rng(0).random((len(odd.tokens), 5)).astype(np.float32)
    marked = Targets(data=odd, labels=np.zeros(len(odd.tokens), np.int16), probabilities=shares)
    (batch,) = WindowedTargets.from_targets(marked, loaded, overlap=0.5).batches(8)
    ids = batch.inputs.input_ids.reshape(-1)[batch.first_subwords].tolist()
    expected, rows = [], []
    for number, sentence in enumerate(words):
        cut = loaded.tokenizer(sentence, is_split_into_words=True)
        firsts: dict[int, int] = {}
        for place, word in enumerate(cut.word_ids()):
            if word is not None:
                firsts.setdefault(word, cut["input_ids"][place])
        expected += list(firsts.values())
        rows += [int(odd.offsets[number]) + word for word in firsts]
    assert ids == expected
    assert len(rows) == len(odd.tokens) - 1  # all but the zero-width space
    np.testing.assert_array_equal(batch.label_probs.numpy(), shares[rows])


def test_batches_hold_every_window_once(tiny: Tiny) -> None:
    targets = Targets.from_gold(sentences(53))
    loaded, _ = new(tiny("distilbert"))._initial_model(targets, None)
    packing = WindowedTargets.from_targets(targets, loaded, overlap=0.5)
    drawn = list(packing.batches(8, np.random.default_rng(1)))
    assert len(drawn) == -(-53 // 8)
    seen = np.concatenate([batch.inputs.windows for batch in drawn])
    assert sorted(seen.tolist()) == list(range(53))
    assert sum(len(batch) for batch in drawn) == 53
    again = np.concatenate([b.inputs.windows for b in packing.batches(8, np.random.default_rng(2))])
    assert seen.tolist() != again.tolist()


def test_a_word_without_a_piece_is_outside(tiny: Tiny) -> None:
    tagger = new(tiny("distilbert")).fit(Targets.from_gold(sentences(60)))
    found = tagger.predict(text([["\u200b", "Oslo", "\u200b"], ["\u200b"]]))
    assert found.labels.tolist()[0::2] == [0, 0]
    assert found.labels.tolist()[1] == 1
    assert found.probabilities is not None
    assert found.probabilities[0].tolist() == [1, 0, 0, 0, 0]


def test_sentences_longer_than_the_encoder_reads(tiny: Tiny) -> None:
    tagger = new(tiny("distilbert"), window=32).fit(Targets.from_gold(sentences(120)))
    long = ["the", "Oslo", "sat"] * 60
    found = tagger.predict(text([long])).labels
    assert np.mean(found.reshape(-1, 3) == [0, 1, 0]) > 0.95
    many = cv.Dataset.from_spans(["LOC", "ANI"], [long] * 3, {}, gold=[[(1, 2, "LOC")]] * 3)
    assert len(new(tiny("distilbert"), epochs=1).fit(Targets.from_gold(many)).predict(many)) == 3


def test_a_sentence_is_judged_alone(tiny: Tiny) -> None:
    data = sentences(30)
    tagger = new(tiny("roberta"), epochs=1).fit(Targets.from_gold(data))
    together, alone = (
        tagger.predict(data).probabilities_by_sentence(),
        tagger.predict(data.take([7])),
    )
    np.testing.assert_allclose(together[7], alone.probabilities_by_sentence()[0], atol=1e-5)


def test_the_same_seed_repeats_whatever_torch_drew_before(tiny: Tiny) -> None:
    targets = Targets.from_soft_labels(believed(sentences(30)))
    found = []
    for draws in (1, 5):
        torch.rand(draws)
        found.append(weights(new(tiny("distilbert"), epochs=2).fit(targets)))
    assert found[0] == found[1]
    assert weights(new(tiny("distilbert"), epochs=2, seed=9).fit(targets)) != found[0]


@pytest.mark.parametrize("step", [3, 9, 14])
def test_a_kill_costs_nothing(tiny: Tiny, tmp_path: Path, step: int) -> None:
    targets = Targets.from_soft_labels(believed(sentences(40)))
    whole = weights(new(tiny("distilbert")).fit(targets))
    with killed_at(step):
        new(tiny("distilbert")).fit(targets, checkpoint_dir=tmp_path)
    assert weights(new(tiny("distilbert")).fit(targets, checkpoint_dir=tmp_path)) == whole


def test_fit_on_a_fitted_tagger_goes_on(tiny: Tiny) -> None:
    targets = Targets.from_gold(sentences(120))
    tagger = new(tiny("distilbert")).fit(targets)
    old, before = tagger.fitted.state.model, weights(tagger)
    tagger.config = FinetunedTagger(encoder=str(tiny("distilbert")), epochs=1, lr=1e-6).config
    tagger.fit(Targets.from_soft_labels(believed(sentences(20, seed=6))), targets)
    assert f1(tagger, sentences(40, seed=5)) > 0.9
    kept = {name: tensor.numpy().tobytes() for name, tensor in old.state_dict().items()}
    assert kept == before  # what was learned before is another's still


def test_saved_and_loaded_it_says_the_same(tiny: Tiny, tmp_path: Path) -> None:
    tagger = new(tiny("roberta"), class_weights="balanced").fit(Targets.from_gold(sentences(60)))
    tagger.save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    data = text(HARD)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    np.testing.assert_array_equal(loaded.predict(data).probabilities, tagger.predict(data).probabilities)
    assert loaded.predict(data).settings["saw_gold"]


def test_an_encoder_without_weights_is_refused() -> None:
    with pytest.raises(cv.ConfigError, match="'hashing' has no weights to train"):
        FinetunedTagger(encoder="hashing").fit(Targets.from_gold(sentences(5)))


def test_weights_of_another_encoder_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "mixed"
    shutil.copytree(tiny("distilbert"), folder)
    shutil.copy(tiny("roberta") / "model.safetensors", folder)
    with pytest.raises(cv.DataError, match=r"the weights are not those of config\.json"):
        new(folder).fit(Targets.from_gold(sentences(5)))


@pytest.mark.parametrize("bad", [{"warmup": 0}, {"warmup": 1}, {"clip": 0}, {"lr": -1}, {"window": 3}, {"threads": 0}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        FinetunedTagger(**bad)


def test_the_learning_rate_is_by_width_unless_set(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("convener.taggers.finetuned.train_network", lambda _, stages, __: seen.extend(stages))
    for lr in (None, 3e-5):
        new(tiny("distilbert"), lr=lr).fit(Targets.from_gold(sentences(5)))
    assert [stage.learning_rate for stage in seen] == [5e-4, 3e-5]


def test_batches_and_epochs_are_by_how_much_text_there_is(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run(_: object, stages: list[Any], schedule: Any) -> None:
        seen.append((schedule.batch_size, stages[0].max_epochs))

    monkeypatch.setattr("convener.taggers.finetuned.train_network", run)
    for words, count, batch, epochs in (
        (5, 100, None, None),
        (60, 100, None, None),
        (60, 100, 1, None),
        (60, 100, 3, 2),
    ):
        data = cv.Dataset.from_spans(["PER"], [["cat"] * words] * count, {}, gold=[[]] * count)
        targets = Targets.from_gold(data)
        new(tiny("distilbert"), batch=batch, epochs=epochs).fit(targets, targets)
    # 7 batches of 16, 12 of 9, 100 of one: 300 steps, or five epochs, whichever is more.
    assert seen == [(16, 43), (9, 25), (1, 5), (3, 2)]


def test_products_may_be_rough_while_weights_are_not(tiny: Tiny) -> None:
    targets, held = Targets.from_gold(sentences(150)), sentences(60, seed=1)
    found = {}
    for precision in ("float32", "bfloat16"):
        tagger = new(tiny("distilbert"), precision=precision).fit(targets)
        assert f1(tagger, held) > 0.9
        assert {w.dtype for w in tagger.fitted.state.model.parameters()} == {torch.float32}
        found[precision] = weights(tagger)
    assert found["float32"] != found["bfloat16"]


def test_a_saved_one_is_an_encoder(tiny: Tiny, tmp_path: Path) -> None:
    data = sentences(40)
    new(tiny("distilbert"), epochs=1).fit(Targets.from_gold(data)).save(tmp_path / "tagger")
    before, after = (
        cv.encode(data, str(folder), layers="last", cache=False).features
        for folder in (tiny("distilbert"), tmp_path / "tagger")
    )
    assert before.dim == after.dim
    assert not np.array_equal(before.tokens, after.tokens)
    voted = data.with_sources(("list",), data.gold[:, None], ("O",))
    model = cv.ConNet(encoder=str(tmp_path / "tagger"), epochs=1).fit(voted)
    assert f1(model, voted) > 0.9
