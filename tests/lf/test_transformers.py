"""Token classifiers as sources: tiny BERT models, compared with the transformers pipeline."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.encoders.subwords import make_windows
from convener.errors import ConfigError, ConvenerError, DataError
from convener.lf.apply import apply_lfs
from convener.lf.doc import Doc
from convener.lf.transformers import transformers_model
from tests.encoders.oracle import Naive
from tests.encoders.toys import SENTENCES, wordpieces

pytestmark = pytest.mark.slow

pytest.importorskip("transformers")
Make = Callable[..., Path]
BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IO = ("I-LOC", "O", "I-PER")
PLAIN = ("PER", "LOC", "O")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Folders of classifiers with random weights and the given tags."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()

    def made(tags: Sequence[str], seed: int = 1) -> Path:
        tokenizer = wordpieces()
        torch.manual_seed(seed)
        config = transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            max_position_embeddings=128,
            initializer_range=0.4,
            id2label=dict(enumerate(tags)),
            label2id={tag: number for number, tag in enumerate(tags)},
        )
        model = transformers.BertForTokenClassification(config)
        with torch.no_grad():  # so that tags differ by word and context
            model.bert.embeddings.word_embeddings.weight.normal_(std=3)
            model.classifier.weight.normal_(std=1)
        folder = tmp_path_factory.mktemp("classifier")
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        return folder

    return made


def by_pipeline(folder: Path, sentences: list[list[str]]) -> list[list[tuple[int, int, str]]]:
    """Spans of the transformers pipeline on tokens joined by spaces, in tokens."""
    import transformers

    pipe = transformers.pipeline("token-classification", model=str(folder), aggregation_strategy="first", device="cpu")
    found = []
    for words in sentences:
        doc = Doc(words)
        begins, ends = doc.char_to_token
        found.append(
            [
                (begins[group["start"]], ends[group["end"]], group["entity_group"])
                for group in (pipe(doc.text) if words else ())
            ]
        )
    return found


def has_clear_tags(folder: Path, words: list[str]) -> bool:
    """Whether no two tags of a token are nearly tied: rounding, which depends on the batch, decides such ties."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder)
    with torch.no_grad():
        best, second = model(**tokenizer(" ".join(words), return_tensors="pt")).logits[0].topk(2).values.T
    return bool((best - second).min() > 1e-3)


def sentences_of(seed: int) -> list[list[str]]:
    """Known words in random order, without punctuation at which BERT would split them."""
    rng = random.Random(seed)
    known = [word for words in SENTENCES for word in words]
    made = [rng.choices(known, k=rng.randrange(1, 20)) for _ in range(40)]
    return [*SENTENCES, [], *made]


@pytest.mark.parametrize("tags", [BIO, IO, PLAIN], ids=["bio", "io", "plain"])
def test_spans_agree_with_the_transformers_pipeline(make: Make, tags: Sequence[str]) -> None:
    folder = make(tags)
    sentences = [words for words in sentences_of(3) if has_clear_tags(folder, words)]
    assert len(sentences) > 30
    function = transformers_model(folder, ["PER", "LOC"], batch_tokens=64)
    assert function.batch_func is not None
    found = [list(spans) for spans in function.batch_func([Doc(words) for words in sentences])]  # type: ignore[arg-type]
    expected = by_pipeline(folder, sentences)
    assert found == expected
    kinds = [kind for spans in expected for _, _, kind in spans]
    assert min(kinds.count("PER"), kinds.count("LOC")) > 20
    assert any(end - start > 1 for spans in expected for start, end, _ in spans)


def test_each_text_is_processed_independently(make: Make) -> None:
    function = transformers_model(make(BIO), ["PER", "LOC"])
    docs = [Doc(words) for words in sentences_of(5)]
    assert function.batch_func is not None
    assert list(function.batch_func(docs)) == [function.func(doc) for doc in docs]


def test_long_texts_are_processed_in_windows(make: Make) -> None:
    """The tag of each word depends only on the window that outputs it."""
    folder = make(IO)
    long = [word for words in sentences_of(7) for word in words][:200]

    def kinds(words: list[str], **settings: Any) -> list[str]:
        """The tags of all words in the IO scheme."""
        message = ["O"] * len(words)
        for start, end, kind in transformers_model(folder, ["PER", "LOC"], **settings)(words) or ():
            message[start:end] = [kind] * (end - start)
        return message

    pieces = [len(found) or 1 for found in Naive(wordpieces(), None).pieces(long)]
    windows = make_windows(np.array(pieces), np.array([0, len(long)]), max_subwords=40 - 2, overlap=0.5)
    expected: list[str] = []
    for start, end, first, last in zip(*windows, strict=True):
        expected += kinds(long[start:end])[first - start : last - start]
    assert len(windows.start) > 5
    assert kinds(long, max_length=40) == expected
    assert kinds(long, max_length=40) != kinds(long)


def test_types_are_mapped_and_others_dropped(make: Make) -> None:
    folder = make(BIO)
    everything = transformers_model(folder, ["PER", "LOC"])
    people = transformers_model(folder, {"PER": "HUMAN"}, name="people", prior_precision=0.9)
    assert (people.name, people.labels, people.in_main_process) == ("people", ("HUMAN",), True)
    assert people.prior_precision == 0.9  # how often it is presumed right, not how it computes
    for words in sentences_of(2):
        expected = [(a, b, "HUMAN") for a, b, kind in everything(words) or [] if kind == "PER"]
        assert people(words) == expected


def test_a_span_ends_at_the_sentence_boundary(make: Make) -> None:
    function = transformers_model(make(["I-X"]), ["X"], scope="document")
    words = ["the", "cat", "sat"]
    assert function(words) == [(0, 3, "X")]
    assert function(Doc(words, sentences=[(0, 2), (2, 3)])) == [(0, 2, "X"), (2, 3, "X")]


def test_tokens_without_subwords_get_tags(make: Make) -> None:
    function = transformers_model(make(["I-X"]), ["X"])
    assert function(["", "\u200b", "\ud800", "cat"]) == [(0, 4, "X")]


def test_it_is_applied_to_data(make: Make) -> None:
    data = cv.Dataset.from_spans(["X"], [["the", "cat"], [], ["sat"]], {})
    assert apply_lfs([transformers_model(make(["I-X"]), ["X"])], data).votes.tolist() == [
        [1],
        [2],
        [1],
    ]


def test_the_fingerprint_covers_what_determines_the_votes(make: Make) -> None:
    folder = make(BIO)
    one = transformers_model(folder, ["PER"])
    same = transformers_model(folder, ["PER"], batch_tokens=64, device="cpu")
    others = [
        transformers_model(folder, ["LOC"]),
        transformers_model(folder, ["PER"], max_length=32),
        transformers_model(make(BIO, seed=2), ["PER"]),
    ]
    assert one.fingerprint() == same.fingerprint()
    assert one.fingerprint() not in {other.fingerprint() for other in others}


def test_invalid_arguments_are_rejected_before_the_first_text(make: Make, tmp_path: Path) -> None:
    folder = make(BIO)
    with pytest.raises(ConfigError, match=r"no entity type of .*; did you mean 'PER'"):
        transformers_model(folder, ["PEER"])
    with pytest.raises(ConfigError, match="overlap must be in"):
        transformers_model(folder, ["PER"], overlap=1.0)
    with pytest.raises(ConfigError, match="dtype must be one of auto, float32, bfloat16"):
        transformers_model(folder, ["PER"], dtype="float8")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_length must be at least 16"):
        transformers_model(folder, ["PER"], max_length=3)
    with pytest.raises(ConfigError, match="did you mean 'scope'"):
        transformers_model(folder, ["PER"], scop="document")
    with pytest.raises(DataError, match="not a model folder"):
        transformers_model(tmp_path, ["PER"])


def test_a_model_without_a_classifier_is_rejected(make: Make, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "encoder"
    shutil.copytree(make(BIO), folder)
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"have another shape, e\.g\. classifier\.bias"):
        transformers_model(folder, ["PER"]).func(Doc(["cat"]))


def test_types_are_checked_on_first_use_if_the_folder_lists_none(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "untold"
    shutil.copytree(make(BIO), folder)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"], config["label2id"] = None, None
    (folder / "config.json").write_text(json.dumps({**config, "num_labels": 5}))
    function = transformers_model(folder, ["PER"])
    with pytest.raises(ConvenerError):
        function.func(Doc(["cat"]))


def test_an_unknown_hub_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    function: Any = transformers_model("lab/ner", ["PER"])
    with pytest.raises(ConfigError, match="token classifier 'lab/ner' is not installed"):
        function.func(Doc(["cat"]))
