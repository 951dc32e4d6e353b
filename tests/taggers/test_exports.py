"""Saved taggers, read in a new process with their own library alone."""

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

from .toys import HARD, sentences, text

BLOCKED = """
import json, sys
sys.modules["convener"] = None
folder, sentences = sys.argv[1], json.loads(sys.stdin.read())
"""
TRANSFORMERS = """
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForTokenClassification.from_pretrained(folder).eval()
found = {"tags": []}
for words in sentences["tags"]:  # as the model card says it
    read = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    best = model(**read).logits[0].argmax(-1).tolist()
    tags = ["O"] * len(words)
    for place, word in reversed(list(enumerate(read.word_ids()))):
        if word is not None:
            tags[word] = model.config.id2label[best[place]]
    found["tags"].append(tags)

tag = pipeline("token-classification", model=folder, aggregation_strategy="first")
found["pipeline"] = [
    [(text[e["start"] : e["end"]].strip(), e["entity_group"]) for e in tag(text)]
    for text in map(" ".join, sentences["pipeline"])
]

long = {"is_split_into_words": True, "return_tensors": "pt"}
cut = tokenizer([sentences["long"]], truncation=True, **long)
model(**cut)
found["cut"] = len({word for word in cut.word_ids() if word is not None})
try:
    model(**tokenizer([sentences["long"]], **long))
    found["whole"] = "read"
except Exception:
    found["whole"] = "refused"
"""
SPACY = """
import spacy
from spacy.tokens import Doc
nlp = spacy.load(folder)
found = []
for words in sentences:
    doc = nlp(Doc(nlp.vocab, words=words))
    found.append([f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc])
"""


def alone(code: str, folder: Path, words: Any) -> Any:
    """What a process says that cannot import us."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code + "\nprint(json.dumps(found))", str(folder)],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def words_of(data: cv.Dataset) -> list[list[str]]:
    return [sentence.tokens for sentence in data]


TEXTS = {
    "tags": [*HARD[1:], *words_of(sentences(40, seed=7))],
    "pipeline": [["the", "cat", "sat", "in", "Oslo"], ["cats", "is", "on", "Norway", "mat"]],
    "long": ["the", "cat", "sat", "in", "Oslo"] * 60,
}


@dataclass(frozen=True)
class Exported:
    tagger: FinetunedTagger
    folder: Path
    said: Any


@pytest.fixture(scope="module", params=["distilbert", "roberta"])
def exported(
    request: pytest.FixtureRequest,
    tiny: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Exported:
    """A tagger half trained, so that it is often in doubt; its folder; what that says alone."""
    settings = {"epochs": 2, "lr": 5e-3, "head_lr": 1e-2, "batch": 8}
    tagger = FinetunedTagger(encoder=str(tiny(request.param)), **settings)
    tagger.fit(Targets.from_gold(sentences(80)))
    folder = tmp_path_factory.mktemp("export") / "tagger"
    tagger.save(folder)
    return Exported(tagger, folder, alone(TRANSFORMERS, folder, TEXTS))


def test_a_hugging_face_folder_says_the_same_alone(exported: Exported) -> None:
    data = text(TEXTS["tags"])
    labels = np.concatenate([data.tags.encode(tags) for tags in exported.said["tags"]])
    found = exported.tagger.predict(data)
    np.testing.assert_array_equal(labels, found.labels)
    assert len(found.spans) > 20


def test_the_pipeline_of_transformers_finds_the_same_spans(exported: Exported) -> None:
    """On words that it cuts as they are: letters with spaces between them."""
    if exported.tagger.fitted.state.model.config.model_type == "roberta":
        pytest.skip("the pipeline takes a piece that is a space for a word of its own")
    data = text(TEXTS["pipeline"])
    expected = [
        [[" ".join(data[number].tokens[start:end]), data.tags.types[kind]] for start, end, kind in row]
        for number, row in enumerate(exported.tagger.predict(data).spans.by_sentence(2))
    ]
    assert exported.said["pipeline"] == expected
    assert any(expected)


def test_what_is_too_long_is_cut_by_the_plain_library_and_windowed_by_ours(
    exported: Exported,
) -> None:
    assert exported.said["cut"] < len(TEXTS["long"])
    assert exported.said["whole"] == "refused"
    labels = exported.tagger.predict(text([TEXTS["long"]])).labels
    assert labels[-100:].any()


def test_the_folder_is_one_for_people_and_libraries(exported: Exported) -> None:
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


def test_a_hugging_face_folder_is_a_source_too(exported: Exported) -> None:
    """Our labeling function of such folders reads the same words the same way."""
    data = text(words_of(sentences(30, seed=9)))
    voted = cv.apply_lfs([cv.lf.transformers_model(exported.folder, ["LOC", "ANI"])], data, cache=False)
    voted = voted.with_types(data.tags.types)
    np.testing.assert_array_equal(voted.votes[:, 0], exported.tagger.predict(data).labels)


def test_a_spacy_pipeline_says_the_same_alone(tmp_path: Path) -> None:
    tagger = SpacyTagger(epochs=3, batch=8).fit(Targets.from_gold(sentences(60)))
    tagger.save(tmp_path / "pipeline")
    data = text([*HARD, *words_of(sentences(40, seed=7))])
    found = alone(SPACY, tmp_path / "pipeline", words_of(data))
    assert found == tagger.predict(data).tags()
    assert len(tagger.predict(data).spans) > 20
    assert (tmp_path / "pipeline" / "README.md").read_text().startswith("---\nlibrary_name: spacy")
