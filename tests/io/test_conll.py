"""CoNLL files: ours and others', every scheme, broken files."""

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

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def saved(folder: Path, raw: str | bytes, name: str = "x.conll") -> Path:
    file = folder / name
    file.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return file


def carried(content: LabeledData) -> LabeledData:
    """The content without what CoNLL leaves out."""
    data = content.data if isinstance(content, Predictions) else content
    assume(not any(UNSUPPORTED_CHARACTERS.search(word) for word in (*data.tokens, *data.tags.types)))
    data = replace(data, text=None)
    if isinstance(content, Dataset):
        return data
    return replace(content, data=data, probabilities=None)


@QUIET
@given(content=contents(Kind(partial=True)))
def test_what_is_written_comes_back(content: LabeledData) -> None:
    content = carried(content)
    with TemporaryDirectory() as room:
        assert same(returned(content, conll.FORMAT, Path(room, "x.conll")), content)


@pytest.mark.parametrize("scheme", SCHEMES)
@QUIET
@given(content=contents(Kind()))
def test_every_scheme_comes_back(scheme: Scheme, content: LabeledData) -> None:
    content = carried(content)
    joined = scheme == "io" and has_neighbours(content)
    with TemporaryDirectory() as room:
        file = Path(room, "x.conll")
        if joined:
            with pytest.raises(FormatError, match="join two neighbouring spans"):
                cio.write(content, file, scheme=scheme)
            return
        cio.write(content, file, scheme=scheme)
        assert same(cio.read_content(file), content)


def has_neighbours(content: LabeledData) -> bool:
    """Whether two spans of one type touch in some column."""
    data = content.data if isinstance(content, Predictions) else content
    columns = [*data.votes.T, *([] if data.gold is None else [data.gold])]
    columns += [content.labels] if isinstance(content, Predictions) else []
    for column in columns:
        spans = [tuple(span) for span in data.tags.spans(column, data.offsets)]
        ends = {(sentence, end, kind) for sentence, _, end, kind in spans}
        if any((sentence, start, kind) in ends for sentence, start, _, kind in spans):
            return True
    return False


def test_our_own_file_to_the_letter(tmp_path: Path) -> None:
    data = Dataset.from_spans(
        ["PER"],
        [["#", "Ada Lovelace"], []],
        {"a b": [[(1, 2, "PER")], None], "c": [None, []]},
        gold=[[(0, 2, "PER")], []],
    )
    data = replace(data, doc_ids=StringArray.from_list(["d\t1", "é"]))
    cio.write(data, tmp_path / "x.conll", scheme="iobes")
    assert (tmp_path / "x.conll").read_text(encoding="utf-8") == (
        '# convener = {"types": ["PER"], "silence": {"a b": "O", "c": "O"}, '
        '"columns": ["token", "source:a b", "source:c", "gold"], "scheme": "iobes"}\n\n'
        '# doc_id = "d\\t1"\n#\tO\t-\tB-PER\nAda Lovelace\tS-PER\t-\tE-PER\n\n'
        '# doc_id = "é"\n# empty\n\n'
    )
    assert cio.read(tmp_path / "x.conll") == data


@pytest.mark.parametrize("word", ["#", "# empty", "# a b", "-DOCSTART-", "# doc_id = 4", "O", " ", "\ufeff"])
@pytest.mark.parametrize("gold", [True, False])
def test_tokens_that_look_like_something_else(tmp_path: Path, word: str, gold: bool) -> None:
    data = Dataset.from_spans(["PER"], [[word, "x"], [word]], {}, gold=[[], []] if gold else None)
    cio.write(data, tmp_path / "x.conll")
    assert cio.read(tmp_path / "x.conll") == data


def test_scores_stand_on_each_token_of_their_span(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada", "Lovelace", "wrote"]], {})
    labels = Predictions(
        data=data,
        labels=np.array([1, 2, 0], np.int16),
        span_scores=np.array([0.1], np.float32),
        model="by hand",
        settings={"rate": 0.5},
    )
    cio.write(labels, tmp_path / "x.conll")
    lines = (tmp_path / "x.conll").read_text().splitlines()
    assert lines[2:5] == ["Ada\tB-PER\t0.1", "Lovelace\tI-PER\t0.1", "wrote\tO\t-"]
    assert same(cio.read_content(tmp_path / "x.conll"), labels)


FOREIGN = """\ufeff-DOCSTART- -X- -X- O

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
def test_a_foreign_file(tmp_path: Path, end: str) -> None:
    data = cio.read(saved(tmp_path, FOREIGN.replace("\n", end), "x.txt"))
    assert data.tokens.to_list() == ["EU", "#", "rejects", "Peter", "Blackburn"]
    assert data.tags.types == ("ORG", "PER")
    assert data.gold.tolist() == [1, 0, 0, 3, 4]
    assert data.sources == ()
    assert data.doc_ids.to_list() == ["doc-0", "doc-1"]


def test_a_document_may_begin_late(tmp_path: Path) -> None:
    data = cio.read(saved(tmp_path, "a\tB-X\n\n-DOCSTART-\tO\n\nb\tO\n-DOCSTART-\tO\nc\tO\n"))
    assert data.doc_ids.to_list() == ["doc-0", "doc-1", "doc-2"]


def test_columns_are_named(tmp_path: Path) -> None:
    file = saved(tmp_path, "1\tEU\tNNP\tB-ORG\t-\tB-ORG\n2\tran\tVB\tO\tO\tO\n")
    columns = ("_", "token", "_", "source:a", "source:b", "gold")
    data = cio.read(file, columns=columns)
    assert data.sources == ("a", "b")
    assert data.votes.tolist() == [[1, -1], [0, 0]]
    assert data.tokens.to_list() == ["EU", "ran"]
    chosen = cio.read(file, columns=columns, sources=("b",), silence="abstain", types=("X", "ORG"))
    assert (chosen.sources, chosen.silence) == (("b",), ("abstain",))
    assert chosen.gold.tolist() == [3, 0]
    with pytest.raises(UnknownNameError, match=r"x\.conll: no source 'z'"):
        cio.read(file, columns=columns, sources=("z",))
    labels = cio.read_content(file, columns=("_", "token", "_", "_", "_", "label"))
    assert isinstance(labels, Predictions)


def test_one_column_is_text_without_gold(tmp_path: Path) -> None:
    data = cio.read(saved(tmp_path, "EU\n#\n\n# not a token\nran"), types=("ORG",))
    assert data.tokens.to_list() == ["EU", "#", "ran"]
    assert data.gold is None
    with pytest.raises(DataError, match=r"x\.conll: no entity types: .*give types=\.\.\.$"):
        cio.read(tmp_path / "x.conll")


@pytest.mark.parametrize("tags", ["B-X I-X O B-X B-X", "B-X E-X O S-X S-X", "B-X L-X O U-X U-X", "B_X M_X O W_X B-X"])
def test_schemes_are_read_without_their_names(tmp_path: Path, tags: str) -> None:
    lines = "".join(f"w {tag}\n" for tag in tags.split())
    report = Issues()
    data = cio.read(saved(tmp_path, lines), issues=report)
    assert data.gold.tolist() == [1, 2, 0, 1, 1]
    assert (len(report) == 0) == ("W_X" not in tags)


def test_illegal_tags_are_noted_with_their_line(tmp_path: Path) -> None:
    file = saved(tmp_path, "# c\na O\n# inside\nb I-X\nc I-X\n\nd I-X\ne O\nf B-X\n")
    report = Issues()
    assert cio.read(file, issues=report).gold.tolist() == [0, 1, 2, 1, 0, 1]
    assert [str(case) for case in report] == [
        f"{file}:4: illegal tag (gold): I-X taken as a span's part",
        f"{file}:7: illegal tag (gold): I-X taken as a span's part",
    ]
    assert cio.read(file, issues=Issues(), on_illegal="drop").gold.tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(DataError) as caught:
        cio.read(file, on_illegal="error")
    assert str(caught.value) == f"{file}:4: illegal tag 'I-X' of gold (2 in all)"


@pytest.mark.parametrize("policy", ["begin", "drop", "error"])
def test_spans_of_io_and_iob1_may_begin_with_i(tmp_path: Path, policy: str) -> None:
    """Each column of a foreign file is judged by itself."""
    rows = "a I-X O\nb I-X I-X\nc B-X I-X\n\nd O I-Y\n"
    report = Issues()
    data = cio.read(
        saved(tmp_path, rows),
        columns=("token", "source:iob1", "gold"),
        on_illegal=policy,
        issues=report,
    )
    assert data.votes[:, 0].tolist() == [1, 2, 1, 0]
    assert data.gold.tolist() == [0, 1, 2, 3]
    assert len(report) == 0


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    words = ["a\u2028b", "a\x85b", "a\x0bb", "a\x1cb", "a\rb"]
    data = cio.read(saved(tmp_path, "".join(f"{word}\tB-X\n" for word in words)))
    assert data.tokens.to_list() == words


OWN = '# convener = {"types": ["X"], "columns": ["token", "label", "score"]}\n'
BROKEN = [
    (b"", ": is empty: expected lines of a token and its tags"),
    (b"\n \n\n", ": is empty: expected lines of a token and its tags"),
    (b"# only words\n", ": no sentences: expected lines of a token and its tags"),
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
    (b"a\t-\n", ":1: expected a tag of gold, got '-'"),
    (b"a\tB-X\x00Y\n", ":1: expected 1 tags, got 2"),
    (
        b"# convener = {\n",
        ":1: not JSON at character 2: Expecting property name enclosed in double quotes",
    ),
    (b"# convener = []\n", ":1: expected 'columns' in the header, got []"),
    (
        b'# convener = {"columns": ["a"]}\n',
        ":1: no column 'a'; available: token, gold, label, score, _, source:NAME",
    ),
    (b'# convener = {"columns": ["gold"]}\n', ":1: expected a column 'token', got gold"),
    (b'# convener = {"columns": ["token", "gold", "gold"]}\n', ":1: two columns are called 'gold'"),
    (
        b'# convener = {"columns": ["token"], "types": 3}\n',
        ":1: expected 'types' as a list of names, got 3",
    ),
    (OWN + "a\tB-X\tnan\n", ":2: expected a score or '-', got 'nan'"),
    (OWN + "a\tB-X\tx\n", ":2: expected a score or '-', got 'x'"),
    (OWN + "\na\tO\t-\nb\tB-X\t-\n", ":4: expected a score for the label, got '-'"),
    (OWN + "a\tB-Y\t1\n", ":2: no entity type 'Y'; available: X (label)"),
    (OWN + "# doc_id = 4\n", ":2: expected doc_id as a string, got 4"),
    (OWN + 'a\tO\t-\n\n# doc_id = "d"\nb\tO\t-\n', ":4: 'doc_id' in some places but not in all"),
]


@pytest.mark.parametrize(("raw", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_clear_line(tmp_path: Path, raw: Any, message: str) -> None:
    file = saved(tmp_path, raw)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    assert str(caught.value) == f"{file}{message}"


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb", "a\rb", "\u2028", "\x85", "\x0b", "\ud800"])
def test_tokens_that_no_line_can_hold(tmp_path: Path, word: str) -> None:
    data = Dataset.from_spans(["PER"], [["x"], [], ["x", word]], {})
    with pytest.raises(FormatError) as caught:
        cio.write(data, tmp_path / "x.conll")
    assert str(caught.value) == f"x.conll: sentence 2: conll cannot hold token 1, {word!r}"
    assert list(tmp_path.iterdir()) == []


def test_types_that_no_tag_can_hold(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="conll cannot hold the entity type"):
        cio.write(Dataset.from_spans(["a\tb"], [["x"]], {}), tmp_path / "x.conll")


def test_the_io_scheme_joins_neighbours_only_when_told(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["x"], ["a", "b"]], {}, gold=[[], [(0, 1, "PER"), (1, 2, "PER")]])
    with pytest.raises(FormatError) as caught:
        cio.write(data, tmp_path / "x.conll", scheme="io")
    assert str(caught.value) == (
        "x.conll: sentence 1: the io scheme would join two neighbouring spans; choose another scheme or set lossy"
    )
    cio.write(data, tmp_path / "x.conll", scheme="io", lossy=True)
    assert cio.read(tmp_path / "x.conll").gold.tolist() == [0, 1, 2]


def test_more_different_lines_than_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll_lines, "MAX_CACHED_ENDINGS", 3)
    monkeypatch.setattr(conll_lines, "CHUNK_BYTES", 70)
    lines = [f"w{number}\tlemma{number}\t{'B-X' if number % 3 else 'O'}" for number in range(50)]
    data = cio.read(saved(tmp_path, "\n".join(lines)))
    assert data.gold.tolist() == [int(number % 3 > 0) for number in range(50)]
