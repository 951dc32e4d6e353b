"""`python -m benchmarks.hmm [LARGEST]`: fit and predict beside skweak, then at growing sizes.

CPU seconds of one thread. Each size runs in a process of its own, so that its peak memory is
its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

import convener as cv
from benchmarks.record import RESULTS, peak_memory, save
from convener.data.ragged import StringArray, lengths_to_offsets

SEED = 0
TYPES = ("PER", "LOC")
SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
STEPS = 5


def corpus(sentences: int, length: int, sources: int) -> cv.Dataset:
    """Sentences of one length; each source finds 60 % of the truth and invents a little."""
    rng = np.random.default_rng(SEED)
    count = sentences * length
    offsets = lengths_to_offsets(np.full(sentences, length))
    tags = cv.TagSet(TYPES)
    begins = rng.random(count) < 0.06
    truth = np.where(begins, 2 * rng.integers(2, size=count, dtype=np.int16) + 1, 0).astype(np.int16)
    goes_on = np.flatnonzero(begins[:-1] & ~begins[1:] & (rng.random(count - 1) < 0.5)) + 1
    truth[goes_on] = truth[goes_on - 1] + 1
    truth, _ = tags.repair(truth, offsets, "drop")
    votes = np.zeros((count, sources), np.int16)
    for source in range(sources):
        said = np.where(rng.random(count, np.float32) < 0.6, truth, 0).astype(np.int16)
        invented = np.flatnonzero((truth == 0) & (rng.random(count, np.float32) < 0.004))
        said[invented] = 2 * rng.integers(2, size=len(invented), dtype=np.int16) + 1
        votes[:, source] = tags.repair(said, offsets)[0]
    return cv.Dataset(
        tags=tags,
        tokens=StringArray(np.full(count, ord("w"), np.uint8), np.arange(count + 1)),
        offsets=offsets,
        sources=tuple(f"source-{n}" for n in range(sources)),
        votes=votes,
        silence=("O",) * sources,
        gold=truth,
    )


def measured(tokens: int) -> dict[str, Any]:
    """Seconds and peak memory of a fit of five steps and a prediction."""
    data = corpus(tokens // 20, 20, 8)
    model = cv.get_model("hmm")
    model(steps=2).fit(data[:100]).predict(data[:100])  # compiles
    before = peak_memory()
    begin = time.process_time()
    fitted = model(steps=STEPS, tolerance=0).fit(data)
    middle = time.process_time()
    labels = fitted.predict(data)
    end = time.process_time()
    return {
        "tokens": tokens,
        "fit": middle - begin,
        "predict": end - middle,
        "peak": peak_memory() - before,
        "f1": cv.evaluate(labels, data).f1 if tokens <= 1_000_000 else None,
    }


def beside_skweak() -> cv.Table:
    """2,000 documents x 20 tokens x 8 sources, both models on the same votes."""
    from skweak.generative import HMM
    from spacy.tokens import Doc, Span
    from spacy.vocab import Vocab

    data = corpus(2000, 20, 8)
    vocab, docs = Vocab(), []
    for sentence in data:
        doc = Doc(vocab, words=sentence.tokens)
        for column, name in enumerate(data.sources):
            spans = data.tags.spans(sentence.votes[:, column], np.array([0, len(doc)]))
            doc.spans[name] = [Span(doc, s.start, s.end, label=TYPES[s.type]) for s in spans]
        docs.append(doc)
    peer = HMM("hmm", list(TYPES))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        begin = time.process_time()
        peer.fit(docs)
        middle = time.process_time()
        docs = list(peer.pipe(docs))
        end = time.process_time()
    theirs = [[(s.start, s.end, s.label_) for s in doc.spans["hmm"]] for doc in docs]
    words = [doc.text.split() for doc in docs]
    found = cv.Dataset.from_spans(TYPES, words, {}, gold=theirs)
    peer_f1 = cv.evaluate(cv.Predictions(data=data, labels=found.gold), data).f1
    cv.get_model("hmm")().fit(data[:50]).predict(data[:50])  # compiles
    fits, predictions = [], []
    for _ in range(7):
        own = time.process_time()
        fitted = cv.get_model("hmm")().fit(data)
        half = time.process_time()
        labels = fitted.predict(data)
        fits.append(half - own)
        predictions.append(time.process_time() - half)
    fit, predict = float(np.median(fits)), float(np.median(predictions))
    f1, tokens = cv.evaluate(labels, data).f1, len(data.tokens)
    return cv.Table(
        title="2,000 documents x 20 tokens x 8 sources",
        columns=("model", "fit s", "predict tokens/s", "F1"),
        rows=[
            ("skweak 0.3.3", middle - begin, tokens / (end - middle), peer_f1),
            ("convener hmm, median of 7", fit, tokens / predict, f1),
            ("ratio", (middle - begin) / fit, (end - middle) / predict, None),
        ],
    )


def main(largest: int) -> None:
    """Both tables and the plot."""
    rows = []
    for tokens in (size for size in SIZES if size <= largest):
        code = "import json, sys; from benchmarks.hmm.__main__ import measured as m;"
        code += "print(json.dumps(m(int(sys.argv[1]))))"
        said = subprocess.run([sys.executable, "-c", code, str(tokens)], capture_output=True, text=True)
        if said.returncode:
            raise SystemExit(said.stderr)
        found = json.loads(said.stdout)
        rows.append(found)
        print(found, file=sys.stderr)
    scale = cv.Table(
        title=f"Growing corpora, 8 sources, sentences of 20 tokens, {STEPS} steps",
        columns=("tokens", "fit s", "fit ns/token/step", "predict tokens/s", "peak bytes/token"),
        rows=[
            (
                row["tokens"],
                round(row["fit"], 2),
                round(1e9 * row["fit"] / row["tokens"] / STEPS, 1),
                round(row["tokens"] / row["predict"]),
                round(row["peak"] / row["tokens"]),
            )
            for row in rows
        ],
        notes=("peak: growth of resident memory over the loaded corpus",),
    )
    _plot(rows)
    print(scale)
    print(save("hmm-scale", [scale], seed=SEED, packages=["numba"]))
    beside = beside_skweak()
    print(beside)
    packages = ["numba", "skweak", "hmmlearn", "spacy"]
    print(save("hmm-beside-skweak", [beside], seed=SEED, packages=packages))


def _plot(rows: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5))
    tokens = [row["tokens"] for row in rows]
    axes.loglog(tokens, [row["fit"] for row in rows], "o-", label=f"fit, {STEPS} steps")
    axes.loglog(tokens, [row["predict"] for row in rows], "s-", label="predict")
    axes.loglog(tokens, [rows[0]["fit"] * n / tokens[0] for n in tokens], ":", label="linear")
    axes.set_xlabel("tokens")
    axes.set_ylabel("CPU seconds, one thread")
    axes.legend()
    figure.tight_layout()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "hmm-scale.svg")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
