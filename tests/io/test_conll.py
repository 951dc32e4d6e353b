"""CoNLL: native and external files, every scheme, malformed files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from convener import io as cio
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.data.schemes import SCHEMES, Scheme
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import conll, conll_lines
from convener.io.conll import UNSUPPORTED_CHARACTERS
from convener.io.formats import LabeledData
from tests.generators import Kind, contents, returned, same
from tests.helpers.reading import read_content

FAST = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def save(folder: Path, raw: str | bytes, name: str = "x.conll") -> Path:
    file = folder / name
    file.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return file


def supported(content: LabeledData) -> LabeledData:
    """Return the content without the parts that CoNLL drops."""
    data = content.data if isinstance(content, Predictions) else content
    assume(not any(UNSUPPORTED_CHARACTERS.search(word) for word in (*data.tokens, *data.tags.types)))
    data = replace(data, text=None)
    if isinstance(content, Dataset):
        return data
    return replace(content, data=data, probabilities=None)


@FAST
@given(content=contents(Kind(partial=True)))
def test_content_round_trips(content: LabeledData) -> None:
    content = supported(content)
    with TemporaryDirectory() as folder:
        assert same(returned(content, conll.FORMAT, Path(folder, "x.conll")), content)


@pytest.mark.parametrize("scheme", SCHEMES)
@FAST
@given(content=contents(Kind()))
def test_every_scheme_round_trips(scheme: Scheme, content: LabeledData) -> None:
    content = supported(content)
    merges = scheme == "io" and has_adjacent_spans(content)
    with TemporaryDirectory() as folder:
        file = Path(folder, "x.conll")
        if merges:
            with pytest.raises(FormatError, match="merge two adjacent spans"):
                cio.write(content, file, scheme=scheme, metadata=True)
            return
        cio.write(content, file, scheme=scheme, metadata=True)
        assert same(read_content(file), content)


def has_adjacent_spans(content: LabeledData) -> bool:
    """Whether two spans of one type are adjacent in some column."""
    data = content.data if isinstance(content, Predictions) else content
    columns = [*data.votes.T, *([] if data.gold is None else [data.gold])]
    columns += [content.labels] if isinstance(content, Predictions) else []
    for column in columns:
        spans = [tuple(span) for span in data.tags.spans(column, data.offsets)]
        ends = {(sentence, end, kind) for sentence, _, end, kind in spans}
        if any((sentence, start, kind) in ends for sentence, start, _, kind in spans):
            return True
    return False


def test_the_exact_text_of_a_native_file(tmp_path: Path) -> None:
    data = Dataset.from_spans(
        ["PER"],
        [["#", "Ada Lovelace"], []],
        {"a b": [[(1, 2, "PER")], None], "c": [None, []]},
        gold=[[(0, 2, "PER")], []],
    )
    data = replace(data, doc_ids=StringArray.from_list(["d\t1", "é"]))
    cio.write(data, tmp_path / "x.conll", scheme="iobes")
    assert (tmp_path / "x.conll").read_text(encoding="utf-8") == (
        '# convener = {"version": 2, "types": ["PER"], "unmarked": {"a b": "abstain", "c": "abstain"}, '
        '"columns": ["token", "source:a b", "source:c", "gold"], "scheme": "iobes"}\n\n'
        '# doc_id = "d\\t1"\n#\tO\t-\tB-PER\nAda Lovelace\tS-PER\t-\tE-PER\n\n'
        '# doc_id = "é"\n# empty_sentence\n\n'
    )
    assert cio.read(tmp_path / "x.conll") == data


@pytest.mark.parametrize("word", ["#", "# empty_sentence", "# a b", "-DOCSTART-", "# doc_id = 4", "O", " ", "\ufeff"])
@pytest.mark.parametrize("gold", [True, False])
def test_tokens_that_look_like_comments_round_trip(tmp_path: Path, word: str, gold: bool) -> None:
    data = Dataset.from_spans(["PER"], [[word, "x"], [word]], {}, gold=[[], []] if gold else None)
    cio.write(data, tmp_path / "x.conll", metadata=True)
    assert cio.read(tmp_path / "x.conll") == data


def test_scores_are_written_for_each_token_of_a_span(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada", "Lovelace", "wrote"]], {})
    predictions = Predictions(
        data=data,
        labels=np.array([1, 2, 0], np.int16),
        span_scores=np.array([0.1], np.float32),
        model="by hand",
        settings={"rate": 0.5},
    )
    cio.write(predictions, tmp_path / "x.conll", metadata=True)
    lines = (tmp_path / "x.conll").read_text().splitlines()
    assert lines[2:5] == ["Ada\tB-PER\t0.1", "Lovelace\tI-PER\t0.1", "wrote\tO\t-"]
    assert same(read_content(tmp_path / "x.conll"), predictions)


EXTERNAL = """\ufeff-DOCSTART- -X- -X- O

# a comment
EU NNP B-NP B-ORG
# a comment inside
#  NN B-NP O
rejects VBZ B-VP O

-DOCSTART- -X- -X- O
Peter   NNP\tB-NP B-PER
Blackburn NNP I-NP I-PER
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_external_file_is_read(tmp_path: Path, end: str) -> None:
    data = cio.read(save(tmp_path, EXTERNAL.replace("\n", end), "x.txt"))
    assert data.tokens.to_list() == ["EU", "#", "rejects", "Peter", "Blackburn"]
    assert data.tags.types == ("ORG", "PER")
    assert data.gold.tolist() == [1, 0, 0, 3, 4]
    assert data.sources == ()
    assert data.doc_ids.to_list() == ["doc-0", "doc-1"]


def test_sentences_may_precede_the_first_docstart(tmp_path: Path) -> None:
    data = cio.read(save(tmp_path, "a\tB-X\n\n-DOCSTART-\tO\n\nb\tO\n-DOCSTART-\tO\nc\tO\n"))
    assert data.doc_ids.to_list() == ["doc-0", "doc-1", "doc-2"]


def test_columns_can_be_named(tmp_path: Path) -> None:
    file = save(tmp_path, "1\tEU\tNNP\tB-ORG\t-\tB-ORG\n2\tran\tVB\tO\tO\tO\n")
    columns = ("_", "token", "_", "source:a", "source:b", "gold")
    data = cio.read(file, columns=columns)
    assert data.sources == ("a", "b")
    assert data.votes.tolist() == [[1, -1], [0, 0]]
    assert data.tokens.to_list() == ["EU", "ran"]
    selected = cio.read(file, columns=columns, sources=("b",), unmarked="outside", types=("X", "ORG"))
    assert (selected.sources, selected.unmarked) == (("b",), ("outside",))
    assert selected.gold.tolist() == [3, 0]
    with pytest.raises(UnknownNameError, match=r"x\.conll: no source 'z'"):
        cio.read(file, columns=columns, sources=("z",))
    predictions = read_content(file, columns=("_", "token", "_", "_", "_", "prediction"))
    assert isinstance(predictions, Predictions)


def test_a_single_column_is_text_without_gold(tmp_path: Path) -> None:
    data = cio.read(save(tmp_path, "EU\n#\n\n# not a token\nran"), types=("ORG",))
    assert data.tokens.to_list() == ["EU", "#", "ran"]
    assert data.gold is None
    with pytest.raises(DataError, match=r"x\.conll: the file names no entity types .*pass types=\[\.\.\.\]$"):
        cio.read(tmp_path / "x.conll")


@pytest.mark.parametrize("tags", ["B-X I-X O B-X B-X", "B-X E-X O S-X S-X", "B-X L-X O U-X U-X", "B_X M_X O W_X B-X"])
def test_schemes_are_detected(tmp_path: Path, tags: str) -> None:
    lines = "".join(f"w {tag}\n" for tag in tags.split())
    issues = Issues()
    data = cio.read(save(tmp_path, lines), issues=issues)
    assert data.gold.tolist() == [1, 2, 0, 1, 1]
    assert (len(issues) == 0) == ("W_X" not in tags)


def test_illegal_tags_are_reported_with_their_line(tmp_path: Path) -> None:
    file = save(tmp_path, "# c\na O\n# inside\nb I-X\nc I-X\n\nd I-X\ne O\nf B-X\n")
    issues = Issues()
    assert cio.read(file, issues=issues).gold.tolist() == [0, 1, 2, 1, 0, 1]
    assert [str(issue) for issue in issues] == [
        f"{file}:4: illegal tag (gold): I-X treated as part of a span",
        f"{file}:7: illegal tag (gold): I-X treated as part of a span",
    ]
    assert cio.read(file, issues=Issues(), on_illegal="drop").gold.tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(DataError) as caught:
        cio.read(file, on_illegal="error")
    assert str(caught.value) == f"{file}:4: illegal tag 'I-X' (gold; 2 in total)"


@pytest.mark.parametrize("policy", ["start", "drop", "error"])
def test_spans_of_io_and_iob1_may_start_with_i(tmp_path: Path, policy: str) -> None:
    """The scheme is detected for each column of an external file."""
    rows = "a I-X O\nb I-X I-X\nc B-X I-X\n\nd O I-Y\n"
    issues = Issues()
    data = cio.read(
        save(tmp_path, rows),
        columns=("token", "source:iob1", "gold"),
        on_illegal=policy,
        issues=issues,
    )
    assert data.votes[:, 0].tolist() == [1, 2, 1, 0]
    assert data.gold.tolist() == [0, 1, 2, 3]
    assert len(issues) == 0


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    words = ["a\u2028b", "a\x85b", "a\x0bb", "a\x1cb", "a\rb"]
    data = cio.read(save(tmp_path, "".join(f"{word}\tB-X\n" for word in words)))
    assert data.tokens.to_list() == words


NATIVE = '# convener = {"types": ["X"], "columns": ["token", "prediction", "score"]}\n'
MALFORMED = [
    (b"", ": the file is empty: expected lines of a token and its tags"),
    (b"\n \n\n", ": the file is empty: expected lines of a token and its tags"),
    (b"# only words\n", ": the file has no sentences: expected lines of a token and its tags"),
    (
        b"EU NNP\n",
        ":1: 'NNP' is not a chunk tag: expected O, or a prefix such as B- or I- before an "
        "entity type; labels without spans (parts of speech, say) are not what convener aggregates",
    ),
    (b"a\tO\nb\tNN\tO\n", ":2: expected 2 columns, got 3: 'b\\tNN\\tO'"),
    (b"a\tO\nb\n", ":2: expected 2 columns, got 1: 'b'"),
    (b"a O\nb\tc O\n", ":2: expected spaces between columns, got 'b\\tc'"),
    (b"a\tO\n\tO\n", ":2: expected a token, got '\\tO'"),
    (b"a\tO\n\nb\xff\tO\n", ":3: not UTF-8 text (byte 0xff)"),
    (b"a\tO\nb\xc3\tO\n\xa9\tO\n", ":3: not UTF-8 text (byte 0xa9)"),
    (b"a\tO\nb\t\xff\n", ":2: not UTF-8 text (byte 0xff)"),
    (b"\x80\x04junk\x00\xff", ":1: not UTF-8 text (byte 0x80)"),
    (b"a\t-\n", ":1: expected a tag (gold), got '-'"),
    (b"a\tB-X\x00Y\n", ":1: expected 1 tags, got 2"),
    (
        b"# convener = {\n",
        ":1: not valid JSON at character 2: Expecting property name enclosed in double quotes",
    ),
    (b"# convener = []\n", ":1: expected 'columns' in the header, got []"),
    (
        b'# convener = {"columns": ["a"]}\n',
        ":1: no column 'a'; available: token, gold, prediction, score, _, source:NAME",
    ),
    (b'# convener = {"columns": ["gold"]}\n', ":1: expected a column 'token', got gold"),
    (b'# convener = {"columns": ["token", "gold", "gold"]}\n', ":1: duplicate column 'gold'"),
    (
        b'# convener = {"columns": ["token"], "types": 3}\n',
        ":1: 'types' must be a list of names, got 3",
    ),
    (NATIVE + "a\tB-X\tnan\n", ":2: expected a score or '-', got 'nan'"),
    (NATIVE + "a\tB-X\tx\n", ":2: expected a score or '-', got 'x'"),
    (NATIVE + "\na\tO\t-\nb\tB-X\t-\n", ":4: expected a score for the span, got '-'"),
    (NATIVE + "a\tB-Y\t1\n", ":2: no entity type 'Y'; available: X (prediction)"),
    (NATIVE + "# doc_id = 4\n", ":2: 'doc_id' must be a string, got 4"),
    (NATIVE + 'a\tO\t-\n\n# doc_id = "d"\nb\tO\t-\n', ":4: 'doc_id' must be given for every sentence or for none"),
]


@pytest.mark.parametrize(("raw", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_file_is_a_one_line_error(tmp_path: Path, raw: Any, message: str) -> None:
    file = save(tmp_path, raw)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    assert str(caught.value) == f"{file}{message}"


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb", "a\rb", "\u2028", "\x85", "\x0b", "\ud800"])
def test_tokens_that_cannot_be_stored_are_an_error(tmp_path: Path, word: str) -> None:
    data = Dataset.from_spans(["PER"], [["x"], [], ["x", word]], {})
    with pytest.raises(FormatError) as caught:
        cio.write(data, tmp_path / "x.conll")
    assert str(caught.value) == f"x.conll: sentence 2: format 'conll' cannot store token 1, {word!r}"
    assert list(tmp_path.iterdir()) == []


def test_types_that_cannot_be_stored_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="format 'conll' cannot store the entity type"):
        cio.write(Dataset.from_spans(["a\tb"], [["x"]], {}), tmp_path / "x.conll")


def test_the_io_scheme_merges_adjacent_spans_only_if_lossy(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["x"], ["a", "b"]], {}, gold=[[], [(0, 1, "PER"), (1, 2, "PER")]])
    with pytest.raises(FormatError) as caught:
        cio.write(data, tmp_path / "x.conll", scheme="io")
    assert str(caught.value) == (
        "x.conll: sentence 1: scheme 'io' would merge two adjacent spans; "
        "choose another scheme or pass allow_lossy=True"
    )
    cio.write(data, tmp_path / "x.conll", scheme="io", allow_lossy=True)
    assert cio.read(tmp_path / "x.conll").gold.tolist() == [0, 1, 2]


def test_more_distinct_lines_than_the_cache_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll_lines, "MAX_CACHED_ENDINGS", 3)
    monkeypatch.setattr(conll_lines, "CHUNK_BYTES", 70)
    lines = [f"w{number}\tlemma{number}\t{'B-X' if number % 3 else 'O'}" for number in range(50)]
    data = cio.read(save(tmp_path, "\n".join(lines)))
    assert data.gold.tolist() == [int(number % 3 > 0) for number in range(50)]
