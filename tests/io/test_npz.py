"""NumPy archives: native files and vote matrices."""

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


def read_arrays(tmp_path: Path, issues: Issues | None = None, **arrays: Any) -> Any:
    options = arrays.pop("options", {})
    path = tmp_path / "m.npz"
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return npz.read(path, ReadOptions(**options), Issues() if issues is None else issues).content


@settings(max_examples=60, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True, empty_words=True)))
def test_content_round_trips(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("npz") / "m.npz"
    assert same(returned(content, npz.FORMAT, path), content)


def test_lone_surrogates_and_slices_round_trip(tmp_path: Path) -> None:
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
    assert data.unmarked == ("outside", "outside")
    assert data.tags.types == ("TYPE-0",)
    assert data.tokens.to_list() == ["_", "_", "_"]
    assert len(data) == 3


def test_a_vote_matrix_with_all_optional_arrays(tmp_path: Path) -> None:
    issues = Issues()
    data = read_arrays(
        tmp_path,
        issues,
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
    assert [(issue.kind, issue.detail) for issue in issues] == [("ignored", "extra")]
    with_offsets = read_arrays(tmp_path, votes=VOTES, offsets=np.array([0, 2, 3], np.int32))
    assert with_offsets.offsets.tolist() == [0, 2, 3]


def test_an_npy_file_is_a_vote_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[1], [0]], np.int8))
    data = cio.read(tmp_path / "m.npy", types=("PER",))
    assert data.votes.tolist() == [[1], [0]]
    with pytest.raises(FormatError, match="unknown format"):
        cio.write(data, tmp_path / "out.npy")


def test_illegal_labels_are_repaired(tmp_path: Path) -> None:
    votes, lengths = np.array([[2], [2], [0]]), np.array([3])
    issues = Issues()
    assert read_arrays(tmp_path, issues, L=votes, lengths=lengths).votes[:, 0].tolist() == [1, 2, 0]
    assert [str(issue) for issue in issues] == [
        f"{tmp_path / 'm.npz'}: row 0: illegal tag (source-0): I-TYPE-0 treated as part of a span"
    ]
    dropped = read_arrays(tmp_path, L=votes, lengths=lengths, options={"on_illegal": "drop"})
    assert dropped.votes[:, 0].tolist() == [0, 0, 0]
    with pytest.raises(DataError) as caught:
        read_arrays(tmp_path, L=votes, lengths=lengths, options={"on_illegal": "error"})
    assert str(caught.value) == (f"{tmp_path / 'm.npz'}: row 0: illegal tag 'I-TYPE-0' (source-0; 1 in total)")


def test_many_illegal_labels_are_counted(tmp_path: Path) -> None:
    issues = Issues()
    read_arrays(tmp_path, issues, L=np.full((150, 1), 2))
    assert len(issues) == 101
    assert issues.items[-1].detail == "and 50 more, each treated as part of a span"


def test_options_select_sources_and_types(tmp_path: Path) -> None:
    options = {"sources": ("source-1",), "types": ("X", "Y"), "unmarked": "abstain"}
    data = read_arrays(tmp_path, L=VOTES, options=options)
    assert (data.sources, data.tags.types, data.unmarked) == (("source-1",), ("X", "Y"), ("abstain",))
    reordered = read_arrays(tmp_path, L=VOTES, types=np.array(["X"]), options={"types": ("W", "X")})
    assert reordered.votes.max() == 3
    with pytest.raises(UnknownNameError, match="no source 'source-9'"):
        read_arrays(tmp_path, L=VOTES, options={"sources": "source-9"})
    own = Dataset.from_spans(["A", "B"], [["x"]], {"a": [[(0, 1, "B")]], "b": [[]]})
    result = returned(own, npz.FORMAT, tmp_path / "o.npz", types=("B",), sources=("b", "a"))
    assert isinstance(result, Dataset)
    assert result.votes.tolist() == [[0, 1]]
    with pytest.raises(DataError, match=r"o.npz: no entity type 'B'"):
        returned(own, npz.FORMAT, tmp_path / "o.npz", types=("A",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": VOTES}, "expected an array 'votes' or 'L', got x"),
        ({}, "expected an array 'votes' or 'L', got none"),
        ({"votes": VOTES, "L": VOTES}, "expected only one of votes and L, got both"),
        ({"L": np.zeros(3)}, "L must have shape (tokens, sources), got (3,)"),
        ({"L": VOTES + 0.5}, "L must contain whole numbers, got 1.5"),
        ({"L": np.full((1, 1), np.nan)}, "L must contain whole numbers, got nan"),
        ({"L": VOTES > 0}, "L must contain whole numbers, got bool"),
        ({"L": VOTES.astype("U")}, "L must contain whole numbers, got <U21"),
        ({"L": VOTES - 1}, "L must be label ids from -1 to 32767, got -2 to 1"),
        ({"L": VOTES + 40_000}, "L must be label ids from -1 to 32767, got 39999 to 40002"),
        ({"L": VOTES, "Y": [0, 0, -1]}, "Y must be label ids from 0 to 32767, got -1 to 0"),
        ({"L": VOTES, "Y": [0]}, "expected 3 gold labels, got 1"),
        ({"L": VOTES, "Y": VOTES}, "Y must have shape (tokens,), got (3, 2)"),
        ({"L": VOTES, "sources": ["a"]}, "expected 2 sources, got 1"),
        ({"L": VOTES, "sources": ["a", "a"]}, None),
        ({"L": VOTES, "sources": [1, 2]},
         "sources must be a list of strings (dtype U), got int64 of shape (2,)"),
        ({"L": VOTES, "tokens": ["a"]}, "expected 3 tokens, got 1"),
        ({"L": VOTES, "lengths": [1, 1]},
         "lengths must be non-negative and sum to the 3 rows of votes, got a sum of 2"),
        ({"L": VOTES, "lengths": [4, -1]},
         "lengths must be non-negative and sum to the 3 rows of votes, got a sum of 3"),
        ({"L": VOTES, "lengths": [1.0, 2.0]},
         "lengths must be a list of whole numbers, got float64"),
        ({"L": VOTES, "offsets": [0, 2]}, "offsets must increase from 0 to 3, the number of rows of votes"),
        ({"L": VOTES, "offsets": [0, 2, 1, 3]}, "offsets must increase from 0 to 3, the number of rows of votes"),
        ({"L": VOTES, "offsets": []}, "offsets must be a list of whole numbers, got float64"),
        ({"L": VOTES + 1},
         "the largest label is 3: expected BIO ids (0 = O, then B-x and I-x for each type), "
         "so an even number of at least 2; pass types=[...]"),
        ({"L": VOTES * 0},
         "the largest label is 0: expected BIO ids (0 = O, then B-x and I-x for each type), "
         "so an even number of at least 2; pass types=[...]"),
        ({"L": VOTES, "types": ["A", "A"]}, None),
        ({"L": VOTES, "types": [""]}, None),
        ({"L": VOTES + 2, "types": ["A"]}, None),
    ],
)  # fmt: skip
def test_a_malformed_matrix_is_a_one_line_error(tmp_path: Path, arrays: dict[str, Any], message: str | None) -> None:
    with pytest.raises(DataError) as caught:
        read_arrays(tmp_path, **arrays)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'm.npz'}: ")
    if message is not None:
        assert str(caught.value) == f"{tmp_path / 'm.npz'}: {message}"


@pytest.fixture
def native(tmp_path: Path) -> Path:
    data = Dataset.from_spans(["A"], [["é", "y"], []], {"a": [[(0, 1, "A")], None]})
    predictions = Predictions(
        data=data, labels=np.array([1, 0], np.int16), probabilities=np.eye(3, dtype=np.float32)[:2]
    )
    cio.write(predictions, tmp_path / "native.npz")
    return tmp_path / "native.npz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"votes": None}, "expected array 'votes' of int16 with 2 dimensions, got none"),
        ({"votes": np.zeros((2, 1))},
         "expected array 'votes' of int16 with 2 dimensions, got float64 with 2"),
        ({"votes": np.full((2, 1), 7, np.int16)}, None),
        ({"votes": np.zeros((3, 1), np.int16)}, None),
        ({"offsets": np.array([0, 1], np.int64)}, None),
        ({"offsets": np.zeros(0, np.int64)}, None),
        ({"tokens_bytes": np.array([0xFF, 65, 66], np.uint8)},
         "tokens_bytes is not UTF-8 at byte 0"),
        ({"tokens_offsets": np.array([0, 1, 3])}, "tokens_offsets must not point inside a character"),
        ({"tokens_offsets": np.array([0, 3, 2, 3])}, "tokens_offsets must not decrease"),
        ({"tokens_offsets": np.array([0, 2])}, "tokens_offsets must run from 0 to 3, the size of tokens_bytes"),
        ({"predictions": np.array([2, 0], np.int16)}, None),
        ({"probabilities": np.zeros((2, 2), np.float32)}, None),
        ({"convener": np.frombuffer(b"{", np.uint8)}, None),
        ({"convener": np.array(["x"])},
         "expected array 'convener' of uint8 with 1 dimensions, got <U1 with 1"),
    ],
)  # fmt: skip
def test_arrays_of_native_files_are_checked(native: Path, changes: dict[str, Any], message: str | None) -> None:
    with np.load(native) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    with native.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DataError) as caught:
        npz.read(native, ReadOptions(), Issues())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{native}: ")
    if message is not None:
        assert str(caught.value) == f"{native}: {message}"


def test_junk_and_pickles_are_errors(tmp_path: Path, native: Path) -> None:
    complete = native.read_bytes()
    path = tmp_path / "junk.npz"
    for junk in (b"", b"PK", b"junk", complete[: len(complete) // 2], b"\x93NUMPY\x01\x00\xff\xff{"):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"junk.npz: not a readable NumPy file"):
            cio.read(path)
    with path.open("wb") as file:
        np.savez(file, votes=np.array([{"a": 1}], object))
    with pytest.raises(DataError, match="allow_pickle=False"):
        cio.read(path)


def test_a_member_that_is_not_an_array_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as file:
        file.writestr("votes.npy", b"hello")
    with pytest.raises(DataError) as caught:
        cio.read(tmp_path / "m.npz")
    expected = "votes: expected a NumPy array, got b'hello'"
    assert str(caught.value) == f"{tmp_path / 'm.npz'}: {expected}"


def test_corrupt_bytes_raise_only_data_errors(native: Path) -> None:
    good, rng = native.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        raw = bytearray(good)
        for at in rng.integers(0, len(raw), 3):
            raw[at] = rng.integers(256)
        native.write_bytes(raw)
        try:
            npz.read(native, ReadOptions(), Issues())
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_settings_that_json_cannot_represent_are_an_error(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"]], {})
    predictions = Predictions(data=data, labels=np.zeros(1, np.int16), settings={"at": Path("x")})
    with pytest.raises(FormatError, match="settings: cannot be written as JSON"):
        cio.write(predictions, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []
