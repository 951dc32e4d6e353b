"""`python -m benchmarks.speed.encode [PART ...]`: encoders: exactness, speed, cache, ten million tokens.

Parts: exact, windows, speed, second, kills, large; all by default. Parts that need the encoder
`minilm` are skipped where it is not installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.data import DATA, DEMO, NAMES, is_available, splits
from benchmarks.harness.results import RESULTS, save_tables
from convener.cache import CACHE_DIR_VARIABLE
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.tables import Table
from convener.encoders import get_encoder, installed_encoders

SEED = 1
MINILM = "minilm"
TIMED_DATA = ("LaptopReview", "CoNLL", DEMO)
CONVENER = [sys.executable, "-m", "convener"]
OPEN_FEATURES = (
    "import sys; from pathlib import Path\n"
    "from convener.encoders.store import open_features\n"
    "f = open_features(Path(sys.argv[1])); print(f.token_vectors(slice(0, 5)).sum())"
)


class Size(NamedTuple):
    """How much of everything is measured."""

    data: tuple[str, ...]
    compared_tokens: int
    """Tokens of each data set that are compared with one sentence at a time."""
    document_words: int
    every: int
    """Of the document, every so many-th word is compared."""
    timed_sentences: int
    rounds: int
    kills: int
    large_tokens: int


FULL = Size(NAMES, 30_000, 3000, 10, 1000, 3, 10, 10_000_000)
SMOKE = Size((DEMO,), 200, 60, 30, 8, 1, 1, 5_000)


class OneAtATime:
    """MiniLM through transformers, in the obvious way: the reference for exactness and speed."""

    def __init__(self) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder = installed_encoders()[MINILM]
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()

    def encode(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """The mean of its subword vectors for every word; the sentences form one padded batch."""
        import torch

        batch = self.tokenizer(sentences, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = self.model(**batch).last_hidden_state.numpy()
        vectors = []
        for number, words in enumerate(sentences):
            ids = np.array([-1 if i is None else i for i in batch.word_ids(number)])
            vectors.append(np.stack([hidden[number][ids == word].mean(axis=0) for word in range(len(words))]))
        return vectors


def exactness(size: Size) -> Table:
    """Largest difference from one sentence at a time; smallest cosine of bfloat16."""
    reference = OneAtATime()
    single, half = (get_encoder(MINILM, layers="last", compute_dtype=name) for name in ("float32", "bfloat16"))
    rows = []
    for name in filter(is_available, size.data):
        data = _first_tokens(splits(name).test, size.compared_tokens)
        ours = single.encode(data.tokens, data.offsets).tokens
        chosen = _fitting_sentences(single, data)
        theirs = np.concatenate([reference.encode([data[int(m)].tokens])[0] for m in chosen])
        mine = np.concatenate([ours[data.offsets[m] : data.offsets[m + 1]] for m in chosen])
        few = _first_tokens(data, size.compared_tokens // 10)
        cosine = cosines(half.encode(few.tokens, few.offsets).tokens, ours[: len(few.tokens)])
        difference = float(np.abs(mine - theirs).max())
        rows.append((name, len(chosen), len(mine), difference, float(cosine.min()), len(cosine)))
    return Table(
        title="MiniLM against one sentence at a time",
        columns=("data", "sentences", "tokens", "float32: largest difference", "bf16: least cosine", "of"),
        rows=rows,
        formats={"float32: largest difference": ".1e", "bf16: least cosine": ".5f"},
        notes=("sentences that fit the model's window; difference in any component of any token",),
    )


def windows(size: Size) -> Table:
    """A long document: every word against its vector from a window centred on it."""
    data = splits("BC5CDR" if is_available("BC5CDR") and DEMO not in size.data else DEMO).test
    words = data.tokens[: size.document_words]
    encoder = get_encoder(MINILM, layers="last", compute_dtype="float32")
    document = np.array([0, len(words)])
    counts = encoder._model.tokenize(words, document).counts
    before = lengths_to_offsets(counts)
    half = (encoder._model.max_subwords - int(counts.max())) // 2
    middle = (before[:-1] + before[1:]) // 2
    first = np.searchsorted(before, np.maximum(middle - half, 0))
    last = np.searchsorted(before, np.minimum(middle + half, before[-1]), side="right") - 1
    texts = words.to_list()
    chosen = np.arange(0, len(texts), size.every)
    parts = [texts[first[n] : last[n]] for n in chosen]
    places = chosen - first[chosen]
    centred = np.concatenate(
        [_vectors_at(encoder, parts[n : n + 64], places[n : n + 64]) for n in range(0, len(chosen), 64)]
    )
    rows = []
    for overlap in (0.0, 0.25, 0.5):
        other = get_encoder(MINILM, layers="last", compute_dtype="float32", overlap=overlap)
        cosine = cosines(other.encode(words, document).tokens[chosen], centred)
        rows.append((overlap, float(cosine.min()), float(cosine.mean())))
    return Table(
        title=f"A document of {len(texts)} words: cosine with a window centred on each word",
        columns=("overlap", "least", "mean"),
        rows=rows,
        formats={"least": ".4f", "mean": ".4f"},
        notes=(f"{len(chosen)} of its words, one in {size.every}; the default overlap is 0.5",),
    )


def speed(size: Size) -> Table:
    """CPU seconds of one thread, methods alternate, median of the rounds."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        names = [name for name in size.data if name in TIMED_DATA and is_available(name)]
        rows = [row for name in names for row in _speed_rows(name, size)]
    finally:
        torch.set_num_threads(threads)
    native = get_encoder(MINILM)._model.dtype is torch.bfloat16
    return Table(
        title=f"{size.timed_sentences} sentences through MiniLM, one thread",
        columns=("data", "tokens", "method", "CPU seconds", "times faster"),
        rows=rows,
        formats={"CPU seconds": ".2f", "times faster": ".2f"},
        notes=(f"this processor {'supports' if native else 'does not support'} bfloat16 natively",),
    )


def _speed_rows(name: str, size: Size) -> list[tuple[Any, ...]]:
    reference = OneAtATime()
    single, half = (get_encoder(MINILM, layers="last", compute_dtype=each) for each in ("float32", "bfloat16"))
    data = splits(name).train[: size.timed_sentences]
    data = data.take(np.flatnonzero(data.lengths > 0))
    sentences = [list(sentence.tokens) for sentence in data]
    mixed = [sentences[n] for n in np.random.default_rng(SEED).permutation(len(sentences))]
    methods: dict[str, Callable[[], object]] = {
        "one at a time": lambda: [reference.encode([words]) for words in sentences],
        "random batches of 32": lambda: [reference.encode(mixed[n : n + 32]) for n in range(0, len(mixed), 32)],
        "ours, float32": lambda: single.encode(data.tokens, data.offsets),
        "ours, bfloat16": lambda: half.encode(data.tokens, data.offsets),
    }
    for encoder in (single, half):
        encoder.encode(data[:8].tokens, data[:8].offsets)
    seconds: dict[str, list[float]] = {method: [] for method in methods}
    for number in range(size.rounds):
        for method, run in methods.items():
            if method.endswith("bfloat16") and number:
                continue
            begin = time.process_time()
            run()
            seconds[method].append(time.process_time() - begin)
    medians = {method: max(1e-9, float(np.median(times))) for method, times in seconds.items()}
    base = medians["one at a time"]
    return [(name, len(data.tokens), method, value, base / value) for method, value in medians.items()]


def second_run(size: Size) -> Table:
    """Seconds of `convener encode` once all features are in the cache."""
    smoke = DEMO in size.data
    with tempfile.TemporaryDirectory() as folder:
        path, encoder = _data_set("BC5CDR", Path(folder), smoke=smoke), "hashing" if smoke else MINILM
        command = [*CONVENER, "encode", str(path), "--encoder", encoder]
        subprocess.run(command, check=True, capture_output=True)
        repeats = 1 if smoke else 3
        start = _seconds([sys.executable, "-c", "import convener.cli"], repeats)
        reader = "read_corpus" if path.is_dir() else "read"
        code = f"import convener.cli, convener as c; c.{reader}({str(path)!r})"
        read = _seconds([sys.executable, "-c", code], repeats)
        whole = _seconds(command, repeats)
    rows = [
        ("starting the interpreter and importing convener.cli", start),
        ("the same, and reading the data set", read),
        ("convener encode, from the cache", whole),
        ("more than the start", whole - start),
    ]
    return Table(
        title=f"{path.stem}, the second run", columns=("what", "seconds"), rows=rows, formats={"seconds": ".2f"}
    )


def kills(size: Size) -> Table:
    """Killed at random moments, then run to the end: the bytes must be the same."""
    rng, rows, smoke = np.random.default_rng(SEED), [], DEMO in size.data
    runs = [("hashing", "BC5CDR", 1.5), (MINILM, "LaptopReview", 25.0)]
    for encoder, name, longest in runs[:1] if smoke else runs:
        with tempfile.TemporaryDirectory() as folder:
            path = _data_set(name, Path(folder), smoke=smoke)
            command = [*CONVENER, "encode", str(path), "--encoder", encoder]
            uninterrupted, killed = Path(folder) / "uninterrupted", Path(folder) / "killed"
            subprocess.run(command, env=_env(uninterrupted), check=True, capture_output=True)
            for _ in range(size.kills):
                process = subprocess.Popen(
                    command, env=_env(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                time.sleep(float(rng.uniform(0.2, longest)))
                process.kill()
                process.wait()
            subprocess.run(command, env=_env(killed), check=True, capture_output=True)
            same = _digests(uninterrupted) == _digests(killed)
            rows.append((encoder, path.stem, size.kills, same))
    return Table(
        title="Killed by SIGKILL at random moments, then run again",
        columns=("encoder", "data", "kills", "same bytes"),
        rows=rows,
    )


def large(size: Size) -> Table:
    """Many tokens from a file through hashing: anonymous memory, and opening the result."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "large.conll"
        tokens = _write_large(corpus, size)
        command = [*CONVENER, "encode", str(corpus), "--encoder", "hashing"]
        begin, peak = time.perf_counter(), 0
        process = subprocess.Popen(command, env=_env(Path(folder)), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            peak = max(peak, _anonymous_memory(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - begin
        features = next(path for path in (Path(folder) / "features").iterdir() if path.is_dir())
        opened = _seconds([sys.executable, "-c", OPEN_FEATURES, str(features)], 1 if DEMO in size.data else 3)
        disk = sum(file.stat().st_size for file in features.iterdir())
    rows = [
        ("tokens", tokens / 1e6, "million"),
        ("whole command, with reading", seconds, "s"),
        ("peak of anonymous memory", peak / 1e9, "GB"),
        ("features on disk", disk / 1e9, "GB"),
        ("a new process opens them and reads a row", opened, "s"),
    ]
    return Table(
        title=f"{size.large_tokens:,} tokens through hashing",
        columns=("what", "value", "unit"),
        rows=rows,
        formats={"value": ".2f"},
    )


PARTS: dict[str, Callable[[Size], Table]] = {
    "exact": exactness,
    "windows": windows,
    "speed": speed,
    "second": second_run,
    "kills": kills,
    "large": large,
}
NEEDS_MINILM = ("exact", "windows", "speed")


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of each row of a with the same row of b."""
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def _first_tokens(data: cv.Dataset, tokens: int) -> cv.Dataset:
    return data[: max(1, int(np.searchsorted(data.offsets, tokens)) - 1)]


def _fitting_sentences(encoder: Any, data: cv.Dataset) -> np.ndarray:
    """Numbers of the sentences that have words and fit into one window."""
    counts = encoder._model.tokenize(data.tokens, data.offsets).counts
    before = lengths_to_offsets(counts)[data.offsets]
    return np.flatnonzero((np.diff(before) <= encoder._model.max_subwords) & (data.lengths > 0))


def _vectors_at(encoder: Any, parts: list[list[str]], places: np.ndarray) -> np.ndarray:
    tokens = StringArray.from_list(word for part in parts for word in part)
    offsets = lengths_to_offsets(len(part) for part in parts)
    return encoder.encode(tokens, offsets).tokens[offsets[:-1] + places]


def _data_set(name: str, folder: Path, *, smoke: bool) -> Path:
    """The path of a data set; for smoke tests a small file."""
    if not smoke:
        return DATA / name
    path = folder / "demo.jsonl"
    cv.write(splits(DEMO).test, path)
    return path


def _write_large(path: Path, size: Size) -> int:
    """Sentences of the data sets, drawn with replacement, with their numbers changed."""
    sentences = [list(sentence.tokens) for name in size.data if is_available(name) for sentence in splits(name).test]
    sentences = [words for words in sentences if any(word.strip() for word in words)]
    rng, total = np.random.default_rng(SEED), 0
    with path.open("w", encoding="utf-8") as file:
        while total < size.large_tokens:
            words = sentences[int(rng.integers(len(sentences)))]
            number = str(rng.integers(10_000))
            lines = [f"{number if word.isdigit() else word} O\n" for word in words if word.strip()]
            lines[:1] = ["B-X".join(lines[0].rsplit("O", 1))]
            file.write("".join(lines) + "\n")
            total += len(lines)
    return total


def _env(cache: Path) -> dict[str, str]:
    return os.environ | {CACHE_DIR_VARIABLE: str(cache)}


def _seconds(command: list[str], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def _digests(folder: Path) -> dict[str, str]:
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*.bin"))
    }


def _anonymous_memory(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return 1024 * int(lines[0].split()[1]) if lines else 0


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.encode", __doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.parts) - set(PARTS)):
        parser.error(f"unknown parts: {', '.join(unknown)}; expected {', '.join(PARTS)}")
    names = args.parts or list(PARTS)
    if MINILM not in installed_encoders():
        skipped = [name for name in names if name in NEEDS_MINILM]
        print(f"{MINILM}: not installed; skipped: {', '.join(skipped)}", file=sys.stderr)
        names = [name for name in names if name not in skipped]
    tables = [PARTS[name](SMOKE if args.smoke else FULL) for name in names]
    save_tables(results, "speed/encode", tables, seed=SEED, packages=["torch", "transformers", "tokenizers"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
