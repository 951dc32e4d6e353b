"""NumPy archives: ours exactly, others' vote matrices."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from convener import io as cio
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import npz
from convener.io.formats import LabeledData, ReadOptions
from tests.generators import Kind, contents, returned, same

VOTES = np.array([[1, -1], [2, 0], [0, 1]])


def read_arrays(tmp_path: Path, report: Issues | None = None, **arrays: Any) -> Any:
    options = arrays.pop("options", {})
    path = tmp_path / "m.npz"
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return npz.read(path, ReadOptions(**options), Issues() if report is None else report)


@settings(max_examples=60, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True, empty_words=True)))
def test_everything_comes_back(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("npz") / "m.npz"
    assert same(returned(content, npz.FORMAT, path), content)


def test_lone_surrogates_and_slices_come_back(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"], ["\ud800", "é"]], {"a": [[], [(0, 1, "A")]]})[1:]
    assert returned(data, npz.FORMAT, tmp_path / "m.npz") == data


def test_nothing_is_pickled(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"]], {"a": [[]]}, gold=[[]])
    cio.write(data, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive.files} <= {"i", "u", "f"}


def test_a_vote_matrix_alone(tmp_path: Path) -> None:
    data = read_arrays(tmp_path, votes=VOTES)
    assert data.votes.tolist() == [[1, -1], [1, 0], [0, 1]]  # each row is its own sentence
    assert data.sources == ("source-0", "source-1")
    assert data.silence == ("abstain", "abstain")
    assert data.tags.types == ("TYPE-0",)
    assert data.tokens.to_list() == ["_", "_", "_"]
    assert len(data) == 3


def test_a_vote_matrix_with_all_that_may_come_with_it(tmp_path: Path) -> None:
    report = Issues()
    data = read_arrays(
        tmp_path,
        report,
        L=VOTES.astype(np.float64),
        lengths=np.array([2, 1]),
        tokens=np.array(["Ada", "é", "🙂"]),
        Y=np.array([1, 2, 0], np.uint8),
        sources=np.array(["a", "b"]),
        types=np.array(["PER"]),
        extra=np.zeros(1),
    )
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.votes.tolist() == VOTES.tolist()
    assert data.gold.tolist() == [1, 2, 0]
    assert data.tokens.to_list() == ["Ada", "é", "🙂"]
    assert (data.sources, data.tags.types) == (("a", "b"), ("PER",))
    assert [(case.kind, case.detail) for case in report] == [("ignored", "extra")]
    again = read_arrays(tmp_path, votes=VOTES, offsets=np.array([0, 2, 3], np.int32))
    assert again.offsets.tolist() == [0, 2, 3]


def test_a_npy_file(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[1], [0]], np.int8))
    data = cio.read(tmp_path / "m.npy", types=("PER",))
    assert data.votes.tolist() == [[1], [0]]
    with pytest.raises(FormatError, match="unknown format"):
        cio.write(data, tmp_path / "out.npy")


def test_stray_labels(tmp_path: Path) -> None:
    votes, lengths = np.array([[2], [2], [0]]), np.array([3])
    report = Issues()
    assert read_arrays(tmp_path, report, L=votes, lengths=lengths).votes[:, 0].tolist() == [1, 2, 0]
    assert [str(case) for case in report] == [
        f"{tmp_path / 'm.npz'}: row 0: illegal tag (source-0): I-TYPE-0 taken as a span's part"
    ]
    dropped = read_arrays(tmp_path, L=votes, lengths=lengths, options={"on_illegal": "drop"})
    assert dropped.votes[:, 0].tolist() == [0, 0, 0]
    with pytest.raises(DataError) as caught:
        read_arrays(tmp_path, L=votes, lengths=lengths, options={"on_illegal": "error"})
    assert str(caught.value) == (f"{tmp_path / 'm.npz'}: row 0: illegal tag 'I-TYPE-0' of source-0 (1 in all)")


def test_many_stray_labels_are_counted(tmp_path: Path) -> None:
    report = Issues()
    read_arrays(tmp_path, report, L=np.full((150, 1), 2))
    assert len(report) == 101
    assert report.items[-1].detail == "50 more from here on: each taken as a span's part"


def test_options(tmp_path: Path) -> None:
    options = {"sources": ("source-1",), "types": ("X", "Y"), "silence": "O"}
    data = read_arrays(tmp_path, L=VOTES, options=options)
    assert (data.sources, data.tags.types, data.silence) == (("source-1",), ("X", "Y"), ("O",))
    reordered = read_arrays(tmp_path, L=VOTES, types=np.array(["X"]), options={"types": ("W", "X")})
    assert reordered.votes.max() == 3
    with pytest.raises(UnknownNameError, match="no source 'source-9'"):
        read_arrays(tmp_path, L=VOTES, options={"sources": "source-9"})
    own = Dataset.from_spans(["A", "B"], [["x"]], {"a": [[(0, 1, "B")]], "b": [[]]})
    found = returned(own, npz.FORMAT, tmp_path / "o.npz", types=("B",), sources=("b", "a"))
    assert isinstance(found, Dataset)
    assert found.votes.tolist() == [[0, 1]]
    with pytest.raises(DataError, match=r"o.npz: no entity type 'B'"):
        returned(own, npz.FORMAT, tmp_path / "o.npz", types=("A",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": VOTES}, "expected an array 'votes' or 'L', got x"),
        ({}, "expected an array 'votes' or 'L', got none"),
        ({"votes": VOTES, "L": VOTES}, "expected one of votes and L, got both"),
        ({"L": np.zeros(3)}, "L must be tokens x sources, got shape (3,)"),
        ({"L": VOTES + 0.5}, "L must hold whole numbers, got 1.5"),
        ({"L": np.full((1, 1), np.nan)}, "L must hold whole numbers, got nan"),
        ({"L": VOTES > 0}, "L must hold whole numbers, got bool"),
        ({"L": VOTES.astype("U")}, "L must hold whole numbers, got <U21"),
        ({"L": VOTES - 1}, "L must be labels from -1, got -2 to 1"),
        ({"L": VOTES + 40_000}, "L must be labels from -1, got 39999 to 40002"),
        ({"L": VOTES, "Y": [0, 0, -1]}, "Y must be labels from 0, got -1 to 0"),
        ({"L": VOTES, "Y": [0]}, "expected 3 gold labels, got 1"),
        ({"L": VOTES, "Y": VOTES}, "Y must be one label a token, got shape (3, 2)"),
        ({"L": VOTES, "sources": ["a"]}, "expected 2 sources, got 1"),
        ({"L": VOTES, "sources": ["a", "a"]}, None),
        ({"L": VOTES, "sources": [1, 2]},
         "sources must be a list of strings (dtype U), got int64 of shape (2,)"),
        ({"L": VOTES, "tokens": ["a"]}, "expected 3 tokens, got 1"),
        ({"L": VOTES, "lengths": [1, 1]}, "lengths must add up to the 3 rows of votes, got 2"),
        ({"L": VOTES, "lengths": [4, -1]}, "lengths must add up to the 3 rows of votes, got 3"),
        ({"L": VOTES, "lengths": [1.0, 2.0]},
         "lengths must be a list of whole numbers, got float64"),
        ({"L": VOTES, "offsets": [0, 2]}, "offsets must rise from 0 to the 3 rows of votes"),
        ({"L": VOTES, "offsets": [0, 2, 1, 3]}, "offsets must rise from 0 to the 3 rows of votes"),
        ({"L": VOTES, "offsets": []}, "offsets must be a list of whole numbers, got float64"),
        ({"L": VOTES + 1},
         "labels run to 3: expected BIO ids (0 = O, then B-x and I-x for each type), so an even "
         "number of labels beside O; give types=..."),
        ({"L": VOTES * 0},
         "labels run to 0: expected BIO ids (0 = O, then B-x and I-x for each type), so an even "
         "number of labels beside O; give types=..."),
        ({"L": VOTES, "types": ["A", "A"]}, None),
        ({"L": VOTES, "types": [""]}, None),
        ({"L": VOTES + 2, "types": ["A"]}, None),
    ],
)  # fmt: skip
def test_malformed_matrices_are_refused_in_one_line(
    tmp_path: Path, arrays: dict[str, Any], message: str | None
) -> None:
    with pytest.raises(DataError) as caught:
        read_arrays(tmp_path, **arrays)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'm.npz'}: ")
    if message is not None:
        assert str(caught.value) == f"{tmp_path / 'm.npz'}: {message}"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    data = Dataset.from_spans(["A"], [["é", "y"], []], {"a": [[(0, 1, "A")], None]})
    labels = Predictions(data=data, labels=np.array([1, 0], np.int16), probabilities=np.eye(3, dtype=np.float32)[:2])
    cio.write(labels, tmp_path / "own.npz")
    return tmp_path / "own.npz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"votes": None}, "expected votes of int16 and 2 dimensions, got none"),
        ({"votes": np.zeros((2, 1))},
         "expected votes of int16 and 2 dimensions, got float64 and 2"),
        ({"votes": np.full((2, 1), 7, np.int16)}, None),
        ({"votes": np.zeros((3, 1), np.int16)}, None),
        ({"offsets": np.array([0, 1], np.int64)}, None),
        ({"offsets": np.zeros(0, np.int64)}, None),
        ({"tokens_bytes": np.array([0xFF, 65, 66], np.uint8)},
         "tokens_bytes are not UTF-8 at byte 0"),
        ({"tokens_offsets": np.array([0, 1, 3])}, "tokens_offsets cut through characters"),
        ({"tokens_offsets": np.array([0, 3, 2, 3])}, "tokens_offsets must not decrease"),
        ({"tokens_offsets": np.array([0, 2])}, "tokens_offsets must run from 0 to the 3 bytes"),
        ({"labels": np.array([2, 0], np.int16)}, None),
        ({"probabilities": np.zeros((2, 2), np.float32)}, None),
        ({"convener": np.frombuffer(b"{", np.uint8)}, None),
        ({"convener": np.array(["x"])},
         "expected convener of uint8 and 1 dimensions, got <U1 and 1"),
    ],
)  # fmt: skip
def test_our_own_arrays_are_checked(own: Path, changes: dict[str, Any], message: str | None) -> None:
    with np.load(own) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    with own.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DataError) as caught:
        npz.read(own, ReadOptions(), Issues())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{own}: ")
    if message is not None:
        assert str(caught.value) == f"{own}: {message}"


def test_junk_and_pickles_are_refused(tmp_path: Path, own: Path) -> None:
    whole = own.read_bytes()
    path = tmp_path / "junk.npz"
    for junk in (b"", b"PK", b"junk", whole[: len(whole) // 2], b"\x93NUMPY\x01\x00\xff\xff{"):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"junk.npz: not a readable NumPy file"):
            cio.read(path)
    with path.open("wb") as file:
        np.savez(file, votes=np.array([{"a": 1}], object))
    with pytest.raises(DataError, match="allow_pickle=False"):
        cio.read(path)


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as file:
        file.writestr("votes.npy", b"hello")
    with pytest.raises(DataError) as caught:
        cio.read(tmp_path / "m.npz")
    expected = "votes: expected a NumPy array, got b'hello'"
    assert str(caught.value) == f"{tmp_path / 'm.npz'}: {expected}"


def test_broken_bytes_never_surprise(own: Path) -> None:
    good, rng = own.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        raw = bytearray(good)
        for at in rng.integers(0, len(raw), 3):
            raw[at] = rng.integers(256)
        own.write_bytes(raw)
        try:
            npz.read(own, ReadOptions(), Issues())
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_settings_that_are_no_json_are_refused(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"]], {})
    labels = Predictions(data=data, labels=np.zeros(1, np.int16), settings={"at": Path("x")})
    with pytest.raises(FormatError, match="settings: cannot be written as JSON"):
        cio.write(labels, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []
