"""Generated worlds agree with their settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from benchmarks.worlds import runs
from benchmarks.worlds.cases import CaseData, available, make_cases
from benchmarks.worlds.config import SourceConfig, WorldConfig
from benchmarks.worlds.draw import KINDS, WORLDS, draw_config
from benchmarks.worlds.generate import World, make_world
from benchmarks.worlds.scoring import fit_and_score, mark_statistics, measured_quality, score_votes
from benchmarks.worlds.text import mean_length
from convener.data.spans import Spans

SOURCES = (
    SourceConfig(name="good", recall=(0.8, 0.6, 0.7), precision=(0.9, 0.8, 0.7), confusion=(0.1, 0.2, 0.0)),
    SourceConfig(name="short", recall=(0.5, 0.5, 0.5), precision=(0.9,) * 3, confusion=(0.0,) * 3, short=0.4, family=1),
    SourceConfig(name="long", recall=(0.5, 0.5, 0.5), precision=(0.9,) * 3, confusion=(0.0,) * 3, long=0.3, family=2),
    SourceConfig(name="split", recall=(0.5, 0.5, 0.5), precision=(0.9,) * 3, confusion=(0.0,) * 3, split=0.4, family=3),
    SourceConfig(name="leaky", recall=(0.4, 0, 0), precision=(0.7, 0, 0), confusion=(0,) * 3, leak=0.3, family=4),
    SourceConfig(name="half", recall=(0.6,) * 3, precision=(0.8,) * 3, confusion=(0.1,) * 3, coverage=0.5, family=5),
    SourceConfig(name="words", recall=(0.5,) * 3, precision=(0.7,) * 3, confusion=(0,) * 3, lexical=True, family=6),
)
CONFIG = WorldConfig(
    name="test",
    kind="functions",
    seed=7,
    sentences=4000,
    valid_sentences=20,
    test_sentences=2000,
    sentence_length=20.0,
    document_length=4,
    type_shares=(0.6, 0.3, 0.1),
    density=0.1,
    span_lengths=(1.3, 1.8, 2.4),
    confused_with=(1, 0, 0),
    lexicon=2000,
    zipf=0.5,
    sources=SOURCES,
)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(CONFIG, features=False)


def spans(data: cv.Dataset, labels: np.ndarray) -> Spans:
    return data.tags.spans(labels, data.offsets)


def marks(data: cv.Dataset, source: int) -> set[tuple[int, int, int, int]]:
    return {tuple(span) for span in spans(data, data.votes[:, source])}


def jaccard(a: set[tuple[int, int, int, int]], b: set[tuple[int, int, int, int]]) -> float:
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("number", [0, 1, 3, 7])
def test_the_same_seed_gives_the_same_world(number: int) -> None:
    first, second = (make_world(draw_config(5, number)) for _ in range(2))
    for name in ("train", "valid", "test"):
        left, right = getattr(first, name), getattr(second, name)
        assert left == right
        assert np.array_equal(left.features.tokens, right.features.tokens)
    assert draw_config(6, number) != draw_config(5, number)


def test_features_do_not_change_the_rest(world: World) -> None:
    assert make_world(CONFIG).train == world.train


def test_density_type_shares_and_span_lengths_are_those_of_the_settings(world: World) -> None:
    data = world.train
    assert (data.gold > 0).mean() == pytest.approx(CONFIG.density, rel=0.05)
    gold = spans(data, data.gold)
    shares = np.bincount(gold.type, minlength=3) / len(gold)
    assert shares == pytest.approx(CONFIG.type_shares, abs=0.03)
    for c, mean in enumerate(CONFIG.span_lengths):
        chosen = gold.type == c
        assert (gold.end - gold.start)[chosen].mean() == pytest.approx(mean_length(mean), rel=0.1)
    assert np.diff(data.offsets).mean() == pytest.approx(CONFIG.sentence_length, rel=0.05)


def test_detection_is_the_configured_recall(world: World) -> None:
    data = world.train
    gold = spans(data, data.gold)
    start, end = data.offsets[gold.sentence] + gold.start, data.offsets[gold.sentence] + gold.end
    for k, source in enumerate(SOURCES):
        covered = np.concatenate([[0], np.cumsum(data.votes[:, k] > 0)])
        met = covered[end] > covered[start]
        read = data.votes[start, k] >= 0
        assert read.mean() == pytest.approx(source.coverage, abs=0.05)
        for c in range(3):
            chosen = (gold.type == c) & read
            expected = source.recall[c] or source.leak
            # Entries of a dictionary are met together: fewer independent draws than mentions.
            units = chosen.sum() / (10 if source.lexical else 1)
            error = 3 * np.sqrt(expected * (1 - expected) / units) + 0.01
            assert met[chosen].mean() == pytest.approx(expected, abs=error), (source.name, c)


def test_marks_overlap_true_spans_as_often_as_the_configured_precision(world: World) -> None:
    data = world.train
    inside = np.concatenate([[0], np.cumsum(data.gold > 0)])
    for k, source in enumerate(SOURCES):
        if source.split:
            continue
        found = spans(data, data.votes[:, k])
        start, end = data.offsets[found.sentence] + found.start, data.offsets[found.sentence] + found.end
        meets = inside[end] > inside[start]
        for c in source.types:
            chosen = found.type == c
            expected = source.precision[c]
            error = 3 * np.sqrt(expected * (1 - expected) / (chosen.sum() / (10 if source.lexical else 1))) + 0.015
            assert meets[chosen].mean() == pytest.approx(expected, abs=error), (source.name, c)


@pytest.mark.parametrize("density", [0.1, 0.3])
def test_measured_recall_and_precision_equal_the_stated_truth(density: float) -> None:
    world = make_world(replace(CONFIG, density=density), features=False)
    recall, precision = measured_quality(world.train)
    gold = spans(world.train, world.train.gold)
    for k, source in enumerate(SOURCES):
        for c in source.types:
            count = np.bincount(gold.type, minlength=3)[c] * source.coverage
            count /= 10 if source.lexical else 1
            for measured, true, number in (
                (recall, world.truth.exact_recall, count),
                (precision, world.truth.exact_precision, count * source.recall[c]),
            ):
                error = 3 * np.sqrt(true[k, c] * (1 - true[k, c]) / number) + 0.015
                assert measured[k, c] == pytest.approx(true[k, c], abs=error), (source.name, c)
        unknown = [c for c in range(3) if c not in source.types]
        assert np.isnan(world.truth.exact_recall[k, unknown]).all()


@pytest.mark.parametrize("lexical", [True, False])
def test_families_share_true_and_false_marks(lexical: bool) -> None:
    source = SourceConfig(
        name="a", recall=(0.4,) * 3, precision=(0.7,) * 3, confusion=(0.0,) * 3, lexical=lexical, family_share=0.98
    )
    sources = (source, replace(source, name="twin"), replace(source, name="other", family=1, family_share=0.0))
    data = make_world(replace(CONFIG, sources=sources), features=False).train
    gold = {tuple(span) for span in spans(data, data.gold)}
    a, twin, other = (marks(data, k) for k in range(3))
    for part in (lambda found: found & gold, lambda found: found - gold):
        assert jaccard(part(a), part(twin)) > 0.55
        assert jaccard(part(a), part(other)) < 0.4


def test_independent_sources_agree_as_often_as_chance(world: World) -> None:
    data = world.train
    gold = {tuple(span) for span in spans(data, data.gold) if span.type == 0}
    good, words = (marks(data, k) & gold for k in (0, 6))
    assert len(good & words) / len(words) == pytest.approx(len(good) / len(gold), abs=0.05)


def test_a_dictionary_treats_all_mentions_of_an_entry_alike(world: World) -> None:
    data = world.train
    found, by_entry = marks(data, 6), dict[tuple[str, ...], list[bool]]()
    words = data.tokens.to_list()
    for span in spans(data, data.gold):
        first = int(data.offsets[span.sentence])
        key = (*words[first + span.start : first + span.end], str(span.type))
        by_entry.setdefault(key, []).append(tuple(span) in found)
    alike = [len(set(values)) == 1 for values in by_entry.values() if len(values) > 2]
    assert np.mean(alike) > 0.95


def nearest_mean_accuracy(world: World) -> tuple[float, float]:
    """Share of the test tokens of entities given their type by the nearest mean of train, and that of chance."""
    means, kinds = [], []
    for data in (world.train, world.test):
        kinds.append((data.gold + 1) // 2)
    rows = world.train.features.token_vectors()
    for c in (1, 2, 3):
        means.append(rows[kinds[0] == c].mean(axis=0))
    entity = kinds[1] > 0
    vectors = world.test.features.token_vectors()[entity]
    distance = ((vectors[:, None] - np.stack(means)) ** 2).sum(axis=2)
    right = np.array([(distance.argmin(axis=1) == c)[kinds[1][entity] == c + 1].mean() for c in range(3)])
    return float(right.mean()), 1 / 3


@pytest.mark.parametrize("seed", [7, 8])
def test_features_without_signal_are_at_chance_and_others_are_not(seed: int) -> None:
    scores = {}
    for signal in ("much", "some", "little", "nothing"):
        config = replace(CONFIG, seed=seed, sentences=2000, test_sentences=1000, features=signal)
        scores[signal], chance = nearest_mean_accuracy(make_world(config))
    assert scores["nothing"] == pytest.approx(chance, abs=0.05)
    assert scores["much"] > 0.85
    assert scores["much"] > scores["some"] > scores["little"] > chance + 0.1


def test_workers_of_a_crowd_read_the_configured_number_of_documents() -> None:
    config = next(each for number in range(8) if (each := draw_config(1, number)).kind == "crowd")
    data = make_world(config, features=False).train
    answers = (data.votes[data.offsets[:-1]] >= 0).sum(axis=1)
    assert (answers == min(config.answers, len(data.sources))).all()
    assert set(data.unmarked) == {"outside"}


def test_the_distribution_covers_the_ranges() -> None:
    configs = [draw_config(1, number) for number in range(WORLDS)]
    assert {kind: sum(each.kind == kind for each in configs) for kind in set(KINDS)} == {
        "functions": 90,
        "mixed": 30,
        "crowd": 40,
    }
    assert min(len(each.type_shares) for each in configs) == 1
    assert max(len(each.type_shares) for each in configs) > 15
    assert max(len(each.sources) for each in configs) > 100
    assert min(each.density for each in configs) < 0.02
    assert max(each.density for each in configs) > 0.3
    assert 0.3 < np.mean([each.lexical for each in configs if each.kind != "crowd"]) < 0.7


def test_the_better_vote_is_below_the_oracle(world: World) -> None:
    scores = score_votes(CaseData(world.train, world.valid, world.test))
    assert 20 < max(scores["io"], scores["span"]) < scores["oracle"]


def test_statistics_of_marks() -> None:
    data = cv.Dataset.from_spans(
        ["A", "B"],
        [["x"] * 6],
        {"one": [[(0, 1, "A"), (2, 3, "B")]], "two": [[(0, 1, "A"), (3, 4, "A")]]},
        gold=[[(0, 1, "A"), (3, 4, "A"), (5, 6, "B")]],
    )
    found = mark_statistics(data)
    expected = {"marks": 4 / 3, "distinct": 1.0, "lone": 2 / 3, "lone_false": 0.5, "marked": 2 / 3}
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.skipif(not available(), reason="no real data")
@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_parts_of_real_sets_are_drawn_by_the_seed() -> None:
    first, again, other = (make_cases(seed, ("sources", "sentences")) for seed in (1, 1, 3))
    assert first == again
    assert {case.sources for case in first} != {case.sources for case in other}
    assert len({case.name for case in first}) == len(first)
    small = next(case for case in first if case.size == 20)
    assert len(small.load().train) == 20
    part = next(case for case in first if case.sources)
    assert len(part.load().test.sources) == len(part.sources)


def test_intervals_of_reliability_are_compared_with_the_truth(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recall, _ = measured_quality(world.train)
    rows = [
        (source, kind, recall[k, c] - width, recall[k, c] + width)
        for k, source in enumerate(world.train.sources)
        for c, (kind, width) in enumerate(zip(world.train.tags.types, (0.1, 0.1, -0.1), strict=True))
        if not np.isnan(recall[k, c])
    ]
    table = cv.Table(title="", columns=("source", "type", "recall low", "recall high"), rows=rows, formats={})
    monkeypatch.setattr(cv.MajorityVote, "reliability", lambda self: table)
    data = CaseData(world.train, world.valid, world.test, world.truth)
    coverage = fit_and_score("majority-vote", data)["coverage"]
    assert coverage["train"] == [sum(low < high for *_, low, high in rows), len(rows)]
    assert coverage["expected"][0] > 0.5 * coverage["expected"][1]


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_a_stored_case_is_not_fitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs.main(["--smoke"], results=tmp_path) == 0
    file = tmp_path / "worlds/worlds.jsonl"
    before = file.read_bytes()
    monkeypatch.setattr(runs, "run_case", lambda case, models, encoder: pytest.fail(f"{case.name} was fitted again"))
    assert runs.main(["--smoke"], results=tmp_path) == 0
    assert file.read_bytes() == before


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_another_model_is_added_to_a_stored_case(tmp_path: Path) -> None:
    case = make_cases(1, ("crowd",), 1)[0]
    assert case.config is not None
    case = replace(case, config=replace(case.config, sentences=30))
    file = runs.CaseFile(tmp_path / "worlds.jsonl")
    for models in (["segment"], ["segment", "dawid-skene"]):
        runs.run_cases([case], models, file, encoder="hashing", jobs=1)
    (row,) = map(json.loads, file.path.read_text().splitlines())
    assert set(row["models"]) == {"segment", "dawid-skene"}
