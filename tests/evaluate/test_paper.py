"""Per-source scores on the test sets equal the paper's appendix tables to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv

APPENDIX = {
    "LaptopReview": {
        "tag-CoreDictionary": (72.63, 51.61, 60.34),
        "link-ExtractedPhrase": (97.46, 29.40, 45.18),
        "link-ConsecutiveCapitals": (35.29, 0.92, 1.79),
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
}


@pytest.mark.parametrize("name", APPENDIX)
def test_per_source_scores_equal_the_appendix(real_data: Path, name: str) -> None:
    rows = cv.analyze(cv.read(real_data / name, "test")).to_json()["sources"]
    found = {
        row["name"]: tuple(round(100 * row[key], 2) for key in ("precision", "recall", "f1"))
        for row in rows
    }
    assert found == APPENDIX[name]
