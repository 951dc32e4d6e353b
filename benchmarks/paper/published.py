"""The paper's own results (Li et al. 2022, KDD), in percent, for comparison with ours.

Encoders there: bert-base-uncased on CoNLL, LaptopReview and OntoNotes, bioBERT on NCBI-Disease,
SciBERT on BC5CDR. Means of five trials. The values of its plots are not available.
"""

from __future__ import annotations

import math

Figures = dict[str, tuple[float, float, float]]


def _row(conll: str, ncbi: str, bc5cdr: str, laptop: str, ontonotes: str) -> Figures:
    names = ("CoNLL", "NCBI-Disease", "BC5CDR", "LaptopReview", "OntoNotes")
    texts = (conll, ncbi, bc5cdr, laptop, ontonotes)
    numbers = (tuple(map(float, text.split())) for text in texts)
    return {name: (f1, p, r) for name, (f1, p, r) in zip(names, numbers, strict=True)}


MAIN: dict[str, Figures] = {
    "BERT-NER": _row(
        "90.74 90.37 91.10",
        "88.89 87.05 90.82",
        "88.81 87.12 90.57",
        "81.34 82.02 80.67",
        "84.11 83.11 85.14",
    ),
    "Best consensus": _row(
        "86.73 98.62 77.39",
        "81.65 99.85 69.06",
        "88.42 99.86 79.33",
        "77.60 100.0 63.40",
        "85.11 97.35 75.61",
    ),
    "CHMM-FE": _row(
        "71.43 72.89 70.02",
        "81.86 90.75 74.55",
        "86.45 91.73 81.75",
        "72.38 88.13 61.41",
        "67.99 65.23 71.00",
    ),
    "ConNet": _row(
        "66.02 67.98 64.19",
        "63.04 74.55 55.16",
        "72.04 77.71 67.18",
        "50.36 63.04 42.73",
        "60.58 59.43 61.83",
    ),
    "MV": _row(
        "60.36 59.06 61.72",
        "78.44 93.04 67.79",
        "80.73 83.79 77.88",
        "73.27 88.86 62.33",
        "58.85 54.17 64.40",
    ),
    "Snorkel": _row(
        "62.43 61.62 63.26",
        "78.44 93.04 67.79",
        "83.50 91.69 76.65",
        "73.27 88.86 62.33",
        "61.85 57.44 66.99",
    ),
    "HMM": _row(
        "62.18 66.42 58.45",
        "66.80 96.79 51.00",
        "71.57 93.48 57.98",
        "73.63 89.30 62.63",
        "55.67 57.95 53.57",
    ),
    "CHMM": _row(
        "63.22 61.93 64.56",
        "78.74 93.21 68.15",
        "83.66 91.76 76.87",
        "73.26 88.79 62.36",
        "64.06 59.70 69.09",
    ),
    "Sparse-CHMM": _row(
        "71.53 73.80 69.39",
        "82.24 93.18 73.60",
        "86.63 89.56 83.88",
        "75.90 91.94 64.62",
        "64.85 61.26 68.88",
    ),
}
"""Table "Evaluation results on the test datasets": F1, precision, recall."""

WEAK = ("ConNet", "MV", "Snorkel", "HMM", "CHMM")
"""The paper's weakly supervised baselines."""
GAIN = 3.01
"""Its average gain over the strongest of them, on five data sets."""

_ORDER = ("CoNLL", "NCBI-Disease", "BC5CDR", "LaptopReview", "OntoNotes")


def _line(*values: float | None) -> dict[str, float | None]:
    return dict(zip(_ORDER, values, strict=True))


ABLATION: dict[str, dict[str, float | None]] = {
    "full": _line(71.53, 82.24, 86.63, 75.90, 64.85),
    "after-stage-1": _line(69.73, 77.89, 86.15, 73.59, 64.15),
    "after-stage-2": _line(70.79, 79.18, 86.04, 74.42, 64.92),
    "naive": _line(33.02, 77.32, None, 71.77, None),
    "without-h": _line(58.66, None, 86.48, 75.38, 64.69),
    "without-softmax": _line(62.86, 80.61, 82.56, 73.71, 53.19),
    "without-dirichlet": _line(64.70, 81.34, 86.05, 73.51, 64.64),
    "without-stage-2": _line(71.18, 81.48, 86.02, 73.11, 63.90),
    "merged-2-and-3": _line(71.27, 79.81, 85.95, 71.49, 64.22),
}
"""Table "F1 scores of ablation studies"; None: training failed, all labels were O."""

TIMES: dict[str, dict[str, tuple[float, int]]] = {
    "CHMM": dict(
        zip(
            _ORDER,
            ((25.46, 50), (5.96, 55), (8.54, 72), (2.60, 56), (729.38, 28)),
            strict=True,
        )
    ),
    "S1": dict(zip(_ORDER, ((9.64, 30), (4.66, 42), (4.02, 87), (2.06, 25), (277.60, 3)), strict=True)),
    "S2": dict(zip(_ORDER, ((8.36, 5), (3.92, 3), (3.36, 5), (1.82, 6), (294.23, 2)), strict=True)),
    "S3": dict(zip(_ORDER, ((8.50, 4), (4.04, 5), (3.54, 9), (1.84, 10), (250.16, 2)), strict=True)),
}
"""Table "Training efficiency": seconds an epoch on an RTX 2080 Ti, and epochs needed."""

STATISTICS: dict[str, tuple[int, int, int, int, int]] = {
    "CoNLL": (14041, 3250, 3453, 4, 16),
    "NCBI-Disease": (593, 100, 100, 1, 5),
    "BC5CDR": (500, 500, 500, 2, 9),
    "LaptopReview": (2436, 609, 800, 1, 3),
    "OntoNotes": (115812, 5000, 22897, 18, 17),
}
"""Table "Dataset statistics": train, valid, test, entity types, labeling functions."""

SOURCES: dict[str, dict[str, tuple[float, float, float]]] = {
    "CoNLL": {
        "BTC": (67.26, 44.56, 53.61),
        "core_web_md": (70.52, 58.27, 63.81),
        "crunchbase_cased": (37.76, 6.69, 11.37),
        "crunchbase_uncased": (32.75, 7.31, 11.96),
        "full_name_detector": (84.63, 11.60, 20.40),
        "geo_cased": (67.99, 16.63, 26.72),
        "geo_uncased": (64.35, 20.20, 30.75),
        "misc_detector": (85.26, 20.68, 33.29),
        "multitoken_crunchbase_cased": (72.73, 3.40, 6.50),
        "multitoken_crunchbase_uncased": (71.22, 3.51, 6.68),
        "multitoken_geo_cased": (72.06, 1.74, 3.39),
        "multitoken_geo_uncased": (66.83, 2.35, 4.55),
        "multitoken_wiki_cased": (94.36, 16.01, 27.37),
        "multitoken_wiki_uncased": (90.55, 16.63, 28.09),
        "wiki_cased": (75.62, 35.48, 48.30),
        "wiki_uncased": (71.50, 38.95, 50.43),
    },
    "NCBI-Disease": {
        "tag-CoreDictionaryUncased": (80.99, 41.39, 54.79),
        "tag-CoreDictionaryExact": (80.69, 17.21, 28.37),
        "tag-CancerLike": (34.88, 1.58, 3.03),
        "tag-BodyTerms": (68.52, 3.91, 7.39),
        "link-ExtractedPhrase": (96.88, 36.11, 52.62),
    },
    "BC5CDR": {
        "tag-DictCore-Chemical": (93.24, 29.68, 45.03),
        "tag-DictCore-Chemical-Exact": (89.55, 3.26, 6.29),
        "tag-DictCore-Disease": (84.19, 26.91, 40.78),
        "tag-DictCore-Disease-Exact": (81.40, 1.08, 2.13),
        "tag-Organic Chemical": (94.06, 30.17, 45.68),
        "tag-Antibiotic": (97.88, 2.38, 4.64),
        "tag-Disease or Syndrome": (79.01, 11.81, 20.55),
        "link-PostHyphen": (86.24, 7.93, 14.53),
        "link-ExtractedPhrase": (87.21, 17.88, 29.68),
    },
    "LaptopReview": {
        "tag-CoreDictionary": (72.63, 51.61, 60.34),
        "link-ExtractedPhrase": (97.46, 29.40, 45.18),
        "link-ConsecutiveCapitals": (35.29, 0.92, 1.79),
    },
}
"""Tables "LF performance" of the appendix: precision, recall, F1 on test."""

PUBLISHED: dict[tuple[str, str], float] = {
    ("LaptopReview", "minilm"): 72.13,
    ("NCBI-Disease", "minilm"): 76.26,
    ("BC5CDR", "minilm"): 79.87,
    ("CoNLL", "minilm"): 57.68,
    ("LaptopReview", "mpnet"): 73.77,
    ("NCBI-Disease", "mpnet"): 77.77,
}
"""Not the paper's: its published code on our features, with raised learning rates (one seed)."""

YARDSTICK: dict[tuple[str, str], float] = {
    ("LaptopReview", "minilm"): 75.0,
    ("NCBI-Disease", "minilm"): 81.4,
    ("BC5CDR", "minilm"): 84.3,
    ("LaptopReview", "mpnet"): 75.2,
    ("NCBI-Disease", "mpnet"): 82.6,
    ("BC5CDR", "mpnet"): 85.6,
}
"""Not the paper's: the union of spans, and an MLP trained on it for tokens that no source marks."""


def main_scores(model: str, data: str) -> tuple[float | None, float | None, float | None]:
    """F1, precision and recall of a model in the paper; None where it has no such result."""
    return MAIN.get(model, {}).get(data, (None, None, None))


def gain(data: str) -> float:
    """Gain of Sparse-CHMM over the strongest baseline of the paper; NaN where unknown."""
    if data not in MAIN["Sparse-CHMM"]:
        return math.nan
    return MAIN["Sparse-CHMM"][data][0] - max(MAIN[model][data][0] for model in WEAK)


def ablation_f1(variant: str, data: str) -> float:
    """F1 of an ablation; infinite where training failed, NaN where unknown."""
    value = ABLATION[variant].get(data, math.nan)
    return math.inf if value is None else value


def epoch_time(stage: str, data: str) -> tuple[float, int] | tuple[None, None]:
    """Seconds an epoch and epochs needed by a stage; None where unknown."""
    return TIMES.get(stage, {}).get(data, (None, None))
