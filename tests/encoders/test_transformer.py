"""Transformer encoders: real and tiny models, compared with single sentences without batching."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.encoders import get_encoder
from convener.encoders.subwords import make_windows
from convener.encoders.transformer import TransformerEncoder
from convener.errors import ConfigError, DataError

from .oracle import Naive, cosines
from .toys import SENTENCES, packed

NEAR = {"rtol": 0, "atol": 1e-4}
KINDS = ("roberta", "distilbert", "t5")
Tiny = Callable[[str], Path]


@pytest.fixture(scope="module")
def news() -> list[list[str]]:
    """Real sentences of all lengths."""
    data = cv.demo.load_corpus().test
    return [list(data[number].tokens) for number in range(0, 60, 5)]


@pytest.fixture
def broken(tiny: Tiny, tmp_path: Path) -> Path:
    """A copy of a tiny model, to be damaged."""
    return Path(shutil.copytree(tiny("distilbert"), tmp_path / "model"))


def reference_encoder(folder: Path) -> Naive:
    return Naive.of(folder, **({"add_prefix_space": True} if "roberta" in folder.name else {}))


# MiniLM, the real thing


def test_vectors_equal_those_of_single_sentences(
    minilm: TransformerEncoder, naive: Naive, news: list[list[str]]
) -> None:
    words, sentences = minilm.encode(*packed(news))
    expected, _ = naive.all(news)
    np.testing.assert_allclose(words, expected, **NEAR)
    starts = np.cumsum([0, *map(len, news)])
    means = np.stack([expected[a:b].mean(0) for a, b in pairwise(starts)])
    np.testing.assert_allclose(sentences, means, **NEAR)  # as its folder asks for


def test_a_sentence_does_not_depend_on_its_batch(minilm: TransformerEncoder, news: list[list[str]]) -> None:
    words, sentences = minilm.encode(*packed(news))
    order = np.random.default_rng(1).permutation(len(news))
    mixed = minilm.encode(*packed([news[number] for number in order]))
    np.testing.assert_allclose(mixed.sentences, sentences[order], **NEAR)
    single = get_encoder("minilm", compute_dtype="float32", batch_tokens=16)
    one_by_one = single.encode(*packed(news))
    np.testing.assert_allclose(one_by_one.tokens, words, **NEAR)


@pytest.mark.parametrize(("layers", "kept"), [("middle", 5), ((0, 1), 2), ((5,), 6), ("last", 6)])
def test_unused_layers_are_not_computed(minilm_folder: Path, layers: Any, kept: int) -> None:
    encoder = TransformerEncoder("minilm", minilm_folder, layers=layers, compute_dtype="float32")
    assert len(encoder._model.model.encoder.layer) == kept


def test_middle_equals_its_layer_numbers(minilm_folder: Path) -> None:
    middle = TransformerEncoder("minilm", minilm_folder)
    assert middle.spec == TransformerEncoder("minilm", minilm_folder, layers=(2, 3, 4)).spec
    assert middle.spec != TransformerEncoder("minilm", minilm_folder, layers="last").spec


def test_the_mean_of_the_last_four_layers(naive: Naive, minilm_folder: Path) -> None:
    encoder = TransformerEncoder("minilm", minilm_folder, layers="last-four", compute_dtype="float32")
    words, _ = encoder.encode(*packed(SENTENCES[:2]))
    np.testing.assert_allclose(words, naive.all(SENTENCES[:2], (3, 4, 5, 6))[0], **NEAR)


def test_the_first_special_token_can_represent_a_sentence(naive: Naive, minilm_folder: Path) -> None:
    encoder = TransformerEncoder("minilm", minilm_folder, sentence="first", compute_dtype="float32")
    sentences = [SENTENCES[0], [], SENTENCES[3]]
    found = encoder.encode(*packed(sentences)).sentences
    expected = naive.all([SENTENCES[0], SENTENCES[3]])[1]
    np.testing.assert_allclose(found[[0, 2]], expected, **NEAR)
    assert not found[1].any()


def test_overlapping_windows_change_vectors_little(
    minilm: TransformerEncoder, minilm_folder: Path, news: list[list[str]]
) -> None:
    long = [word for line in news for word in line][:120]
    halved = TransformerEncoder("minilm", minilm_folder, max_length=96, compute_dtype="float32")
    alike = cosines(minilm.encode(*packed([long])).tokens, halved.encode(*packed([long])).tokens)
    assert len(long) == 120
    assert alike.mean() > 0.9
    assert (alike < 0.99999).any()  # it was read in windows


def test_bfloat16_is_close_to_float32(minilm: TransformerEncoder, minilm_folder: Path) -> None:
    half = TransformerEncoder("minilm", minilm_folder, compute_dtype="bfloat16")
    one, two = (encoder.encode(*packed(SENTENCES[:2])) for encoder in (minilm, half))
    assert cosines(one.tokens, two.tokens).min() > 0.999
    assert cosines(one.sentences, two.sentences).min() > 0.999
    assert np.abs(one.tokens - two.tokens).max() > 1e-4  # it was computed otherwise


@pytest.mark.parametrize("sentences", [[], [[]], [[], [], []]])
def test_empty_input_gives_no_vectors(minilm: TransformerEncoder, sentences: list[list[str]]) -> None:
    words, found = minilm.encode(*packed(sentences))
    assert words.shape == (0, 384)
    assert found.shape == (len(sentences), 384)
    assert not found.any()


def test_empty_sentences_change_nothing(minilm: TransformerEncoder, naive: Naive) -> None:
    words, found = minilm.encode(*packed([[], SENTENCES[0], [], [], SENTENCES[1], []]))
    np.testing.assert_allclose(words, naive.all(SENTENCES[:2])[0], **NEAR)
    assert found.any(axis=1).tolist() == [False, True, False, False, True, False]


def test_very_long_words_are_encoded(minilm: TransformerEncoder, naive: Naive) -> None:
    monsters = [["x" * 10_000, "cat", "ab, " * 2500], ["🙂" * 10_000], SENTENCES[0]]
    words, sentences = minilm.encode(*packed(monsters))
    assert np.isfinite(words).all()
    assert np.isfinite(sentences).all()
    np.testing.assert_allclose(words[4:], naive.all([SENTENCES[0]])[0], **NEAR)


def test_words_without_subwords_have_vectors(minilm: TransformerEncoder, naive: Naive) -> None:
    words, _ = minilm.encode(*packed([["cat", "\u200b", "mat"], [""]]))
    read = naive.vectors(["cat", "[UNK]", "mat"])[0]
    np.testing.assert_allclose(words[:3], read, **NEAR)
    assert words[3].any()


# Other architectures


@pytest.mark.parametrize(("kind", "width"), [("roberta", 32), ("distilbert", 24), ("t5", 28)])
def test_other_architectures_load_and_agree(tiny: Tiny, kind: str, width: int) -> None:
    folder = tiny(kind)
    encoder = get_encoder(str(folder), compute_dtype="float32")
    assert encoder.dim == width
    words, first = reference_encoder(folder).all(SENTENCES)
    found = encoder.encode(*packed(SENTENCES))
    np.testing.assert_allclose(found.tokens, words, **NEAR)
    np.testing.assert_allclose(found.sentences, first, **NEAR)  # no folder asks for the mean
    assert np.std(words, axis=0).min() > 1e-3  # vectors that tell words apart


@pytest.mark.parametrize(
    ("layers", "meant"),
    [
        ("last-four", (2, 3, 4, 5)),
        ((0,), (0,)),
        ((-1, 2), (2, 5)),
        ((-6, 5), (0, 5)),
        ([4], (4,)),
        ("-2", (4,)),
        ("1,-1", (1, 5)),
    ],
)
def test_layers_are_selected_and_averaged(tiny: Tiny, layers: Any, meant: tuple[int, ...]) -> None:
    folder = tiny("distilbert")
    encoder = get_encoder(str(folder), layers=layers, compute_dtype="float32")
    words, first = reference_encoder(folder).all(SENTENCES, meant)
    np.testing.assert_allclose(encoder.encode(*packed(SENTENCES)).tokens, words, **NEAR)
    np.testing.assert_allclose(encoder.encode(*packed(SENTENCES)).sentences, first, **NEAR)


@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.75])
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_sentence_is_encoded_in_windows(tiny: Tiny, kind: str, overlap: float) -> None:
    oracle, around = reference_encoder(tiny(kind)), 1 if kind == "t5" else 2
    capacity = 32 - around
    words = [word for line in SENTENCES * 3 for word in line]
    long = [word for word in words if len(oracle.pieces([word])[0]) <= capacity // 4]
    encoder = get_encoder(str(tiny(kind)), max_length=32, overlap=overlap, sentence="first", compute_dtype="float32")
    found = encoder.encode(*packed([["cat"], long, ["mat"]]))
    counts = np.array([len(ids) for ids in oracle.pieces(long)])
    windows = make_windows(counts, np.array([0, len(long)]), max_subwords=capacity, overlap=overlap)
    assert len(windows.start) >= 4
    for start, end, first, last in zip(*windows, strict=True):
        seen, head = oracle.vectors(long[start:end])
        np.testing.assert_allclose(found.tokens[1 + first : 1 + last], seen[first - start : last - start], **NEAR)
        if start == 0:
            np.testing.assert_allclose(found.sentences[1], head, **NEAR)
    np.testing.assert_allclose(found.tokens[[0, -1]], oracle.all([["cat"], ["mat"]])[0], **NEAR)


def test_a_model_with_a_decoder_uses_its_encoder(tiny: Tiny, tmp_path: Path) -> None:
    import transformers

    folder = Path(shutil.copytree(tiny("t5"), tmp_path / "whole"))
    config = transformers.AutoConfig.from_pretrained(folder)
    config.is_encoder_decoder = True
    transformers.T5Model(config).save_pretrained(folder)
    found = get_encoder(str(folder), compute_dtype="float32").encode(*packed(SENTENCES)).tokens
    np.testing.assert_allclose(found, reference_encoder(folder).all(SENTENCES)[0], **NEAR)


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "lst"}, "layers must be"),
        ({"layers": ()}, "at least one layer"),
        ({"layers": (7,)}, r"layers must be in \[-7, 6\]"),
        ({"layers": (-8, 1)}, r"layers must be in \[-7, 6\]"),
        ({"sentence": "max"}, "one of auto, first, mean; got 'max'"),
        ({"compute_dtype": "half"}, "one of auto, float32, bfloat16"),
        ({"max_length": 15}, "max_length must be at least 16, got 15"),
        ({"max_length": 513}, "max_length must be at most 512"),
        ({"overlap": 0.8}, r"overlap must be in \[0, 0.75\], got 0.8"),
        ({"overlap": -0.1}, "overlap must be in"),
        ({"overlap": "nan"}, "overlap must be a number"),
        ({"batch_tokens": 1}, "batch_tokens must be at least 16"),
        ({"device": "abacus"}, "device 'abacus' is not available"),
        ({"max_lenght": 64}, "did you mean 'max_length'"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        get_encoder("minilm", **settings).encode(*packed([["cat"]]))


def test_settings_that_do_not_affect_features_are_not_in_the_spec() -> None:
    plain = get_encoder("minilm").spec
    assert get_encoder("minilm", batch_tokens=64, device="cpu").spec == plain
    for change in (
        {"layers": "last-four"},
        {"sentence": "first"},
        {"compute_dtype": "float32"},
        {"max_length": 64},
        {"overlap": 0.25},
    ):
        assert get_encoder("minilm", **change).spec != plain, change


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json", "1_Pooling/config.json"])
def test_a_changed_model_has_another_spec(broken: Path, file: str) -> None:
    (broken / "1_Pooling").mkdir()
    (broken / "1_Pooling" / "config.json").write_text("{}")
    before = get_encoder(str(broken)).spec
    assert get_encoder(str(broken)).spec == before
    raw = (broken / file).read_bytes()
    (broken / file).write_bytes(raw[:-1] + b" " + raw[-1:])
    assert get_encoder(str(broken)).spec != before


def test_a_copied_model_has_the_same_spec(broken: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    here = get_encoder(str(tiny("distilbert"))).spec
    assert get_encoder(str(broken)).spec == here
    monkeypatch.chdir(broken.parent)
    assert get_encoder("model").spec == here
    assert get_encoder("model").spec.name == str(broken)


# Folders that are no models


def edited(**changes: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return damage


def shortened(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        raw = (folder / name).read_bytes()
        (folder / name).write_bytes(raw[: len(raw) // 2])

    return damage


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def strange(folder: Path) -> None:
    """Weights of the right shapes under other names: they would be random."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("attention", "atention"): value for name, value in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})


def wordless(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def small(folder: Path) -> None:
    """Fewer embeddings in the model than ids in its tokenizer."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    weights[name] = weights[name][:10].contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    edited(vocab_size=10)(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), r"not a model folder \(expected config.json"),
        (lambda f: (f / "config.json").write_text("{"), "config.json: invalid JSON"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "config.json: invalid JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "expected a JSON object, got list"),
        (edited(dim="wide"), "missing key hidden_size"),
        (edited(model_type="klingon"), "cannot load the model: .*klingon"),
        (edited(n_heads=5), "cannot load the model"),
        (edited(dim=48), "the weights do not match config.json: .* another shape"),
        (strange, "the weights do not match config.json: .*attention"),
        (shortened("model.safetensors"), "cannot load the model: Error while deserializing"),
        (lambda f: (f / "model.safetensors").write_bytes(b"junk"), "cannot load the model"),
        (lambda f: (f / "model.safetensors").unlink(), r"no weights \(expected \*.safetensors\)$"),
        (pickled, "pytorch_model.bin is a pickle, which can run code"),
        (shortened("tokenizer.json"), "tokenizer.json: invalid JSON"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "cannot load the model"),
        (wordless, r"no tokenizer \(expected tokenizer.json\)"),
        (small, "the tokenizer returns id .* the model has 10 embeddings"),
    ],
)
def test_an_invalid_model_folder_is_rejected_in_one_line(
    broken: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(broken)
    with pytest.raises(DataError, match=message) as caught:
        get_encoder(str(broken)).encode(*packed(SENTENCES))
    assert str(broken) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a model folder"):
        get_encoder(str(tmp_path))


def test_code_of_a_model_is_never_run(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Transformers would ask the user whether to run it."""
    edited(model_type="own", auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})(broken)
    (broken / "own.py").write_text(f"open({str(broken / 'ran')!r}, 'w')\n")
    with pytest.raises(DataError, match="custom code"):
        get_encoder(str(broken)).encode(*packed(SENTENCES))
    assert not (broken / "ran").exists()
    assert capsys.readouterr() == ("", "")


def test_loading_prints_nothing_and_restores_logging(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.enable_progress_bar()
    logging.set_verbosity_info()
    try:
        get_encoder(str(broken)).encode(*packed(SENTENCES))
        assert capfd.readouterr() == ("", "")
        assert logging.is_progress_bar_enabled()
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(level)
        if not shown:
            logging.disable_progress_bar()
