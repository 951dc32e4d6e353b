"""Saved taggers, loaded in a new process with their own library alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.taggers.finetuned import FinetunedTagger
from convener.taggers.spacy import SpacyTagger
from convener.taggers.targets import Targets

from .toys import UNUSUAL_SENTENCES, sentences, unlabeled

BLOCKED = """
import json, sys
sys.modules["convener"] = None
folder, sentences = sys.argv[1], json.loads(sys.stdin.read())
"""
TRANSFORMERS = """
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForTokenClassification.from_pretrained(folder).eval()
result = {"tags": []}
for words in sentences["tags"]:  # as in the model card
    inputs = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    labels = model(**inputs).logits[0].argmax(-1).tolist()
    tags = ["O"] * len(words)
    for position, word in reversed(list(enumerate(inputs.word_ids()))):
        if word is not None:
            tags[word] = model.config.id2label[labels[position]]
    result["tags"].append(tags)

tag = pipeline("token-classification", model=folder, aggregation_strategy="first")
result["pipeline"] = [
    [(text[e["start"] : e["end"]].strip(), e["entity_group"]) for e in tag(text)]
    for text in map(" ".join, sentences["pipeline"])
]

long = {"is_split_into_words": True, "return_tensors": "pt"}
truncated = tokenizer([sentences["long"]], truncation=True, **long)
model(**truncated)
result["truncated"] = len({word for word in truncated.word_ids() if word is not None})
try:
    model(**tokenizer([sentences["long"]], **long))
    result["untruncated"] = "accepted"
except Exception:
    result["untruncated"] = "rejected"
"""
SPACY = """
import spacy
from spacy.tokens import Doc
nlp = spacy.load(folder)
result = []
for words in sentences:
    doc = nlp(Doc(nlp.vocab, words=words))
    result.append([f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc])
"""


def run_without_convener(code: str, folder: Path, words: Any) -> Any:
    """Output of a process that cannot import convener."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code + "\nprint(json.dumps(result))", str(folder)],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def sentence_words(data: cv.Dataset) -> list[list[str]]:
    return [list(sentence.tokens) for sentence in data]


TEXTS = {
    "tags": [*UNUSUAL_SENTENCES[1:], *sentence_words(sentences(40, seed=7))],
    "pipeline": [["the", "cat", "sat", "in", "Oslo"], ["cats", "is", "on", "Norway", "mat"]],
    "long": ["the", "cat", "sat", "in", "Oslo"] * 60,
}


@dataclass(frozen=True)
class Exported:
    tagger: FinetunedTagger
    folder: Path
    output: Any


@pytest.fixture(scope="module", params=["distilbert", "roberta"])
def exported(
    request: pytest.FixtureRequest,
    tiny: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Exported:
    """A partially trained and therefore uncertain tagger, its folder, and the output of the folder without convener."""
    settings = {"max_epochs": 2, "learning_rate": 5e-3, "head_learning_rate": 1e-2, "batch_size": 8}
    tagger = FinetunedTagger(encoder=str(tiny(request.param)), **settings)
    tagger.fit(Targets.from_gold(sentences(80)))
    folder = tmp_path_factory.mktemp("export") / "tagger"
    tagger.save(folder)
    return Exported(tagger, folder, run_without_convener(TRANSFORMERS, folder, TEXTS))


def test_transformers_alone_gives_the_same_labels(exported: Exported) -> None:
    data = unlabeled(TEXTS["tags"])
    labels = np.concatenate([data.tags.encode(tags) for tags in exported.output["tags"]])
    result = exported.tagger.predict(data)
    np.testing.assert_array_equal(labels, result.labels)
    assert len(result.spans) > 20


def test_the_pipeline_of_transformers_finds_the_same_spans(exported: Exported) -> None:
    """On words that its tokenizer splits at spaces only."""
    if exported.tagger.fitted.state.model.config.model_type == "roberta":
        pytest.skip("the pipeline takes a subword that is a space for a word")
    data = unlabeled(TEXTS["pipeline"])
    expected = [
        [[" ".join(data[number].tokens[start:end]), data.tags.types[type_index]] for start, end, type_index in row]
        for number, row in enumerate(exported.tagger.predict(data).spans.by_sentence(2))
    ]
    assert exported.output["pipeline"] == expected
    assert any(expected)


def test_long_text_is_truncated_by_transformers_and_windowed_by_convener(
    exported: Exported,
) -> None:
    assert exported.output["truncated"] < len(TEXTS["long"])
    assert exported.output["untruncated"] == "rejected"
    labels = exported.tagger.predict(unlabeled([TEXTS["long"]])).labels
    assert labels[-100:].any()


def test_the_folder_contains_the_files_of_hugging_face_and_a_model_card(exported: Exported) -> None:
    folder = exported.folder
    names = {file.name for file in folder.iterdir()}
    assert {"config.json", "tokenizer.json", "model.safetensors", "README.md"} <= names
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {
        "0": "O", "1": "B-LOC", "2": "I-LOC", "3": "B-ANI", "4": "I-ANI"
    }  # fmt: skip
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "`B-LOC`" in card


def test_a_saved_tagger_is_a_labeling_function(exported: Exported) -> None:
    """The transformers labeling function gives the labels of the tagger."""
    data = unlabeled(sentence_words(sentences(30, seed=9)))
    voted = cv.apply_lfs([cv.lf.transformers_model(exported.folder, ["LOC", "ANI"])], data, cache=False)
    voted = voted.with_types(data.tags.types)
    np.testing.assert_array_equal(voted.votes[:, 0], exported.tagger.predict(data).labels)


def test_spacy_alone_gives_the_same_labels(tmp_path: Path) -> None:
    tagger = SpacyTagger(max_epochs=3, batch_size=8).fit(Targets.from_gold(sentences(60)))
    tagger.save(tmp_path / "pipeline")
    data = unlabeled([*UNUSUAL_SENTENCES, *sentence_words(sentences(40, seed=7))])
    result = run_without_convener(SPACY, tmp_path / "pipeline", sentence_words(data))
    assert result == tagger.predict(data).tags()
    assert len(tagger.predict(data).spans) > 20
    assert (tmp_path / "pipeline" / "README.md").read_text().startswith("---\nlibrary_name: spacy")
