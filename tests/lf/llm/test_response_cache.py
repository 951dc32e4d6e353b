"""Answers on disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConvenerWarning
from convener.lf.llm.client import Response, ResponseCache

REQUEST = {"model": "toy", "messages": [{"role": "user", "content": "Zoë"}]}


@given(content=st.text(st.characters()), tokens=st.integers(0, 10**9))
def test_an_answer_is_found_again(content: str, tokens: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("answers")
    answer = Response(content, tokens, 1)
    ResponseCache(folder).put(REQUEST, answer)
    assert ResponseCache(folder).get(REQUEST) == answer
    assert ResponseCache(folder).get({**REQUEST, "seed": 1}) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b"3", b'{"content": 3}', b"\xff", b'{"x": 1}'])
def test_a_broken_file_is_no_answer(tmp_path: Path, raw: bytes) -> None:
    answers = ResponseCache(tmp_path)
    answers.put(REQUEST, Response("x"))
    answers.path(REQUEST).write_bytes(raw)
    assert answers.get(REQUEST) is None
    answers.put(REQUEST, Response("y"))
    assert answers.get(REQUEST) == Response("y")


def test_many_at_once_leave_whole_files_and_nothing_else(tmp_path: Path) -> None:
    answers = ResponseCache(tmp_path)
    requests = [{**REQUEST, "seed": number % 10} for number in range(60)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda request: answers.put(request, Response(str(request["seed"]))), requests))
    assert [answers.get(request) for request in requests[:10]] == [Response(str(number)) for number in range(10)]
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 10


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("a file where the folder should be")
    with pytest.warns(ConvenerWarning, match="answer not kept"):
        ResponseCache(tmp_path).put(REQUEST, Response("x"))
