"""The response cache."""

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
def test_a_stored_response_is_found(content: str, tokens: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("responses")
    answer = Response(content, tokens, 1)
    ResponseCache(folder).put(REQUEST, answer)
    assert ResponseCache(folder).get(REQUEST) == answer
    assert ResponseCache(folder).get({**REQUEST, "seed": 1}) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b"3", b'{"content": 3}', b"\xff", b'{"x": 1}'])
def test_a_damaged_file_is_ignored(tmp_path: Path, raw: bytes) -> None:
    answers = ResponseCache(tmp_path)
    answers.put(REQUEST, Response("x"))
    answers.path(REQUEST).write_bytes(raw)
    assert answers.get(REQUEST) is None
    answers.put(REQUEST, Response("y"))
    assert answers.get(REQUEST) == Response("y")


def test_concurrent_writes_leave_only_complete_files(tmp_path: Path) -> None:
    answers = ResponseCache(tmp_path)
    requests = [{**REQUEST, "seed": number % 10} for number in range(60)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda request: answers.put(request, Response(str(request["seed"]))), requests))
    assert [answers.get(request) for request in requests[:10]] == [Response(str(number)) for number in range(10)]
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 10


def test_a_write_error_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "llm_responses").write_text("a file where the folder should be")
    with pytest.warns(ConvenerWarning, match="response not cached"):
        ResponseCache(tmp_path).put(REQUEST, Response("x"))
