"""A language model as a source: the real client against a local server with the same API."""

from __future__ import annotations

import json
import logging
import socket
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, DataError
from convener.lf.apply import ApplyOptions, apply_with_report
from convener.lf.doc import Doc
from convener.lf.fingerprint import NotFingerprintable
from convener.lf.llm.source import LLMSource, llm

from .server import Response, Server, quotes_response

pytestmark = pytest.mark.slow

TYPES = {"PER": "people", "LOC": "places"}
KEY = "sk-very-secret-7431"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, a key, no server of the user's, and short waits between retries."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01, raising=False)
    monkeypatch.setenv("CONVENER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return tmp_path


def source(server: Server, **settings: Any) -> LLMSource:
    """A source that asks a local server."""
    return llm("toy", TYPES, **{"timeout": 5.0, "base_url": server.url, **settings})


def docs(*texts: str) -> list[Doc]:
    return [Doc.from_input(text) for text in texts]


def found(function: LLMSource, *texts: str) -> list[Any]:
    assert function.batch_func is not None
    return list(function.batch_func(docs(*texts)))


# What comes back


def test_quotes_become_spans_of_our_tokens() -> None:
    with Server(lambda text, n: quotes_response(("Ada Lovelace", "PER"), ("london", "loc"))) as server:
        function = source(server)
        assert function(Doc.from_input("Ada  Lovelace left London.")) == [(0, 2, "PER"), (3, 4, "LOC")]
    counts = function.usage
    assert (counts.texts, counts.requests, counts.cache_hits, counts.failed) == (1, 1, 0, 0)
    assert (counts.prompt_tokens, counts.completion_tokens) == (7, 3)
    assert (counts.quotes, counts.spans) == (2, 2)
    assert function.labels == ("PER", "LOC")


def test_the_request_contains_all_settings() -> None:
    with Server(lambda text, n: quotes_response()) as server:
        function = source(
            server,
            examples=[("Bo is in Rome", [("Bo", "PER")])],
            temperature=0.5,
            options={"seed": 3, "response_format": {"type": "json_object"}},
        )
        assert function("Oslo") == []
    (body,) = server.bodies
    messages = [(message["role"], message["content"]) for message in body.pop("messages")]
    assert [role for role, _ in messages] == ["system", "user", "assistant", "user"]
    assert "- PER: people\n- LOC: places" in messages[0][1]
    assert messages[1:] == [
        ("user", "Text:\nBo is in Rome"),
        ("assistant", '[{"text": "Bo", "type": "PER"}]'),
        ("user", "Text:\nOslo"),
    ]
    assert body == {
        "model": "toy",
        "temperature": 0.5,
        "seed": 3,
        "response_format": {"type": "json_object"},
    }
    assert server.keys == {f"Bearer {KEY}"}


def test_quotes_that_cannot_be_aligned_are_rejected_and_counted() -> None:
    answer = [("Paris", "LOC"), ("Oslo", "CITY"), ("New York", "LOC"), ("York", "LOC")]
    with Server(lambda text, n: quotes_response(*answer)) as server:
        function = source(server)
        (doc,) = docs("Oslo or New York")
        assert list(function.batch_func([doc])) == [[(2, 4, "LOC")]]  # type: ignore[misc]
    counts = function.usage
    assert (counts.quotes, counts.spans) == (4, 1)
    assert (counts.not_in_text, counts.unknown_types, counts.overlapped) == (1, 1, 1)
    assert [issue.kind for issue in doc.issues] == ["refused"] * 3
    assert "'Paris' 'LOC' is not in the text" in [issue.detail for issue in doc.issues]


@pytest.mark.parametrize(
    "content",
    [
        '```json\n[{"text": "Oslo", "type": "LOC"}]\n```',
        'Here you are: {"entities": [{"text": "Oslo", "type": "LOC"}]}',
        '<think>[{"text": "no", "type": "PER"}]</think>[{"text": "Oslo", "type": "LOC"}]',
    ],
)
def test_text_around_the_json_is_ignored(content: str) -> None:
    with Server(lambda text, n: Response(content)) as server:
        assert source(server)("to Oslo") == [(1, 2, "LOC")]


@pytest.mark.parametrize(
    "content",
    ["", "I found Oslo.", '[{"text": "Oslo", "type": "LOC"}, {"text":', '["Oslo"]', "{}", "null"],
)
def test_a_malformed_response_abstains_and_is_cached(content: str) -> None:
    with Server(lambda text, n: Response(content)) as server:
        function = source(server)
        (doc,) = docs("to Oslo")
        assert list(function.batch_func([doc])) == [ABSTAIN]  # type: ignore[misc]
        assert [issue.kind for issue in doc.issues] == ["malformed"]
        assert found(function, "to Oslo") == [ABSTAIN]
        assert server.requests == 1
    assert (function.usage.malformed_responses, function.usage.cache_hits) == (2, 1)


def test_invalid_entries_are_counted_and_the_others_used() -> None:
    content = '[{"text": "Oslo", "type": "LOC"}, {"text": 3, "type": "LOC"}, "Rome", {}]'
    with Server(lambda text, n: Response(content)) as server:
        function = source(server)
        assert function(["to", "Oslo"]) == [(1, 2, "LOC")]
    assert (function.usage.quotes, function.usage.invalid_entries) == (1, 3)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response(content=None), "response without content"),
        (Response(body=b"{}"), "response without content"),
        (Response(body=b"[1]"), "response without content"),
        (Response(body=b"<html>", headers={"content-type": "text/html"}), "without content"),
        (Response(body=b"{broken"), "JSONDecodeError"),
    ],
)
def test_a_response_that_is_no_completion_fails_and_is_not_cached(response: Response, reason: str) -> None:
    with Server(lambda text, n: response if n == 1 else quotes_response(("Oslo", "LOC"))) as server:
        function = source(server)
        assert found(function, "to Oslo") == [ABSTAIN]
        assert function.usage.failed == 1
        assert reason in next(iter(function.usage.failures))
        assert found(function, "to Oslo") == [[(1, 2, "LOC")]]


def test_empty_texts_are_not_sent() -> None:
    with Server(lambda text, n: quotes_response()) as server:
        function = source(server)
        assert found(function, "", "") == [[], []]
    assert (server.requests, function.usage.texts) == (0, 0)


# The cache


def test_a_second_run_makes_no_request() -> None:
    def behaviour(text: str, n: int) -> Response:
        return Response("no list") if text == "b" else quotes_response((text, "LOC"))

    with Server(behaviour) as server:
        first, second = source(server), source(server)
        before = found(first, "a", "b", "c d")
        assert before == [[(0, 1, "LOC")], ABSTAIN, [(0, 2, "LOC")]]
        assert server.requests == 3
        assert found(second, "a", "b", "c d") == before
        assert server.requests == 3
    counts = second.usage
    assert (counts.texts, counts.cache_hits, counts.requests) == (3, 3, 0)
    assert (counts.prompt_tokens, counts.completion_tokens) == (0, 0)


def test_the_cache_key_covers_the_request_but_not_the_server() -> None:
    changes: list[dict[str, Any]] = [
        {"system": "Mark {types}"},
        {"prompt": "Mark: {text}"},
        {"examples": [("Bo", [("Bo", "PER")])]},
        {"temperature": None},
        {"options": {"seed": 1}},
    ]
    with Server(lambda text, n: quotes_response()) as server, Server(lambda text, n: quotes_response()) as other:
        assert found(source(server), "x") == [[]]
        for settings in changes:
            assert found(source(server, **settings), "x") == [[]]
        assert server.requests == 1 + len(changes)
        assert found(llm("other", TYPES, base_url=server.url), "x") == [[]]
        assert server.requests == 2 + len(changes)
        assert found(source(other, concurrency=1, timeout=9.0), "x") == [[]]
        assert other.requests == 0


def test_a_repeated_text_is_sent_once_per_run() -> None:
    with Server(lambda text, n: quotes_response(("Oslo", "LOC"))) as server:
        function = source(server, cache=False)
        assert found(function, *["to Oslo"] * 5) == [[(1, 2, "LOC")]] * 5
        assert (server.requests, function.usage.texts, function.usage.cache_hits) == (1, 5, 4)
        found(function, "to Oslo")
        assert server.requests == 2  # without a cache nothing is kept from call to call


def test_the_cache_folder_can_be_chosen(tmp_path: Path) -> None:
    with Server(lambda text, n: quotes_response()) as server:
        found(source(server, cache=tmp_path / "mine"), "x")
    assert len(list((tmp_path / "mine").rglob("*.json"))) == 1


def test_votes_are_cached_only_with_responses() -> None:
    with Server(lambda text, n: quotes_response()) as server:
        assert source(server).fingerprint() == source(server, concurrency=1).fingerprint()
        assert source(server).fingerprint() != source(server, system="Mark {types}").fingerprint()
        with pytest.raises(NotFingerprintable):
            source(server, cache=False).fingerprint()


# Applied to data

SENTENCES = [["Ada", "left", "Oslo"], ["a", "bad", "day"], [], ["Bo", "?"], ["Rome", "again"]]
ANSWERS = {
    "Ada left Oslo": quotes_response(("Ada", "PER"), ("oslo", "LOC"), ("Paris", "LOC")),
    "Bo ?": Response("Sorry."),
    "Rome again": quotes_response(("Rome", "LOC")),
}
VOTES = [1, 0, 3, -1, -1, -1, -1, -1, 3, 0]


def data() -> cv.Dataset:
    return cv.Dataset.from_spans(["PER", "LOC"], SENTENCES, {})


def test_applied_to_data_it_loses_only_failed_texts() -> None:
    with Server(lambda text, n: ANSWERS.get(text, Response(status=500))) as server:
        function = source(server, max_attempts=2)
        result = apply_with_report([function], data())
        assert result.data.votes.ravel().tolist() == VOTES
        assert [(case.kind, case.where) for case in result.issues] == [
            ("refused", "sentence 0"),
            ("error", "sentence 1"),
            ("malformed", "sentence 3"),
        ]
        assert server.requests == 5
        apply_with_report([source(server, max_attempts=2)], data())  # asks again for what failed, and only that
        assert server.asked == {"Ada left Oslo": 1, "a bad day": 4, "Bo ?": 1, "Rome again": 1}
        with pytest.raises(DataError, match="llm: sentence 1: error: no response: HTTP 500"):
            apply_with_report([source(server, max_attempts=1)], data(), ApplyOptions(on_error="raise"))


def test_a_second_run_over_data_makes_no_request() -> None:
    with Server(lambda text, n: ANSWERS.get(text, quotes_response())) as server:
        first = apply_with_report([source(server)], data(), ApplyOptions(cache=False))
        asked = server.requests
        again = source(server)
        second = apply_with_report([again], data(), ApplyOptions(cache=False))
        third = apply_with_report([source(server)], data())
        fourth = apply_with_report([source(server)], data())
    assert asked == server.requests == 4
    assert (again.usage.cache_hits, again.usage.requests) == (4, 0)
    assert first.data == second.data == third.data == fourth.data
    assert [run.status for run in fourth.stats] == ["cached"]


# Failures


def test_retry_after_is_honoured() -> None:
    def behaviour(text: str, n: int) -> Response:
        return Response(status=429, headers={"retry-after": "0.3"}) if n < 3 else quotes_response((text, "LOC"))

    with Server(behaviour) as server:
        function = source(server)
        assert found(function, "a") == [[(0, 1, "LOC")]]
    waits = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    assert len(waits) == 2
    assert min(waits) >= 0.3
    assert (function.usage.requests, function.usage.failed) == (3, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after-ms": "50"},
        {"retry-after": formatdate(0, usegmt=True)},
        {"retry-after": "soon"},
        {"retry-after": "inf"},
        {},
    ],
)
def test_all_forms_of_retry_after_are_accepted(headers: dict[str, str]) -> None:
    def behaviour(text: str, n: int) -> Response:
        return Response(status=429, headers=headers) if n == 1 else quotes_response()

    with Server(behaviour) as server:
        function = source(server)
        assert found(function, "a") == [[]]
    assert function.usage.requests == 2


@pytest.mark.parametrize("after", ["3600", formatdate(4e9, usegmt=True)])
def test_a_very_long_retry_after_is_not_waited_for(after: str) -> None:
    begin = time.monotonic()
    with Server(lambda text, n: Response(status=429, headers={"retry-after": after})) as server:
        function = source(server)
        assert found(function, "a") == [ABSTAIN]
    assert time.monotonic() - begin < 5
    assert (function.usage.requests, function.usage.failures) == (1, {"HTTP 429": 1})


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
def test_transient_errors_are_retried_and_then_counted(status: int) -> None:
    with Server(lambda text, n: Response(status=status)) as server:
        function = source(server, max_attempts=3)
        assert found(function, "a") == [ABSTAIN]
    assert server.requests == function.usage.requests == 3
    assert function.usage.failures == {f"HTTP {status}": 1}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_permanent_errors_are_not_retried(status: int) -> None:
    with Server(lambda text, n: Response(status=status)) as server:
        function = source(server)
        assert found(function, "a") == [ABSTAIN]
    assert (server.requests, function.usage.failures) == (1, {f"HTTP {status}": 1})


def test_a_server_can_forbid_retries() -> None:
    with Server(lambda text, n: Response(status=429, headers={"x-should-retry": "false"})) as server:
        function = source(server)
        assert found(function, "a") == [ABSTAIN]
    assert (server.requests, function.usage.requests) == (1, 1)


def test_a_timeout_is_retried() -> None:
    def behaviour(text: str, n: int) -> Response:
        return Response(after=1.0) if n == 1 else quotes_response((text, "LOC"))

    with Server(behaviour) as server:
        function = source(server, timeout=0.2)
        assert found(function, "a") == [[(0, 1, "LOC")]]
        assert function.usage.requests == 2


def test_repeated_timeouts_are_counted() -> None:
    with Server(lambda text, n: Response(after=0.5)) as server:
        function = source(server, timeout=0.1, max_attempts=2)
        assert found(function, "a") == [ABSTAIN]
    assert (function.usage.requests, function.usage.failures) == (2, {"timeout": 1})


def test_closed_connections_are_retried_and_counted() -> None:
    with Server(lambda text, n: Response(hangs_up=True)) as server:
        function = source(server, max_attempts=2)
        assert found(function, "a") == [ABSTAIN]
    assert (function.usage.requests, function.usage.failures) == (2, {"no connection": 1})


def test_the_circuit_breaker_skips_texts_and_recovers() -> None:
    """After four consecutive failures the other texts are skipped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    function = llm("toy", TYPES, base_url=f"http://127.0.0.1:{port}/v1", max_consecutive_failures=4)
    texts = [f"text {number}" for number in range(60)]
    begin = time.monotonic()
    assert found(function, *texts) == [ABSTAIN] * 60
    assert time.monotonic() - begin < 20
    counts = function.usage
    assert (counts.texts, counts.failed) == (60, 60)
    assert set(counts.failures) == {"no connection", "skipped after too many consecutive failures"}
    assert 4 <= counts.failures["no connection"] <= 4 + 3  # those under way at the same time
    before = counts.requests
    found(function, *texts)
    assert function.usage.requests - before <= 4 * 5
    with Server(lambda text, n: quotes_response()) as server:  # the same function, a server that lives
        object.__setattr__(function.annotator.client.config, "base_url", server.url)
        assert found(function, *texts) == [[]] * 60


def test_a_failure_does_not_affect_other_texts() -> None:
    def behaviour(text: str, n: int) -> Response:
        return Response(status=500) if text == "bad" else quotes_response((text, "LOC"))

    with Server(behaviour) as server:
        function = source(server, max_attempts=2)
        assert found(function, "a", "bad", "c") == [[(0, 1, "LOC")], ABSTAIN, [(0, 1, "LOC")]]
        assert found(function, "a", "bad", "c") == [[(0, 1, "LOC")], ABSTAIN, [(0, 1, "LOC")]]
    assert server.asked == {"a": 1, "bad": 4, "c": 1}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_concurrency_is_limited(concurrency: int) -> None:
    texts = [f"t{number}" for number in range(12)]

    def behaviour(text: str, n: int) -> Response:
        answer = quotes_response((text, "LOC"))
        return Response(answer.content, after=0.05)

    with Server(behaviour) as server:
        assert found(source(server, concurrency=concurrency), *texts) == [[(0, 1, "LOC")]] * 12
    assert 1 <= server.at_once <= concurrency
    assert concurrency == 1 or server.at_once > 1


def test_invalid_unicode_fails_only_its_own_text() -> None:
    with Server(lambda text, n: quotes_response()) as server:
        function = source(server)
        assert function.batch_func is not None
        bad = Doc(["half", "\ud800"])
        assert list(function.batch_func([bad, Doc(["whole"])])) == [ABSTAIN, []]
    assert function.usage.failed == 1


# The key


def test_the_key_appears_only_in_the_request(
    cache: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    def behaviour(text: str, n: int) -> Response:
        body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
        return quotes_response((text, "LOC")) if text == "good" else Response(status=401, body=body)

    with Server(behaviour) as server:
        function = source(server)
        seen = docs("good", "bad")
        assert function.batch_func is not None
        list(function.batch_func(seen))
    assert server.keys == {f"Bearer {KEY}"}
    written = [file.read_text() for file in cache.rglob("*") if file.is_file()]
    places = [str(file) for file in cache.rglob("*")]
    assert written
    printed = [
        *(issue.detail for doc in seen for issue in doc.issues),
        *(repr(thing) for thing in (function, function.annotator.client.config, function.usage)),
        *(str(function.usage), caplog.text, *capsys.readouterr()),
    ]
    assert not [text for text in (*written, *places, *printed) if KEY in text or "secret" in text]


def test_the_key_is_read_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "other\n")
    with Server(lambda text, n: quotes_response()) as server:
        found(source(server, api_key_env="MY_KEY"), "a")
        monkeypatch.delenv("MY_KEY")
        found(source(server, api_key_env="MY_KEY"), "b")
    assert server.keys == {"Bearer other", "Bearer none"}


def test_a_missing_key_and_url_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="set the environment variable OPENAI_API_KEY"):
        llm("toy", TYPES)("Oslo")


def test_the_url_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(lambda text, n: quotes_response()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert llm("toy", TYPES)("Oslo") == []


# Settings


def test_settings_are_passed_to_their_classes() -> None:
    function = llm("toy", ["PER"], name="mine", scope="document", prior_precision=0.9, max_consecutive_failures=3)
    assert (function.name, function.scope, function.prior_precision) == ("mine", "document", 0.9)
    assert function.in_main_process
    assert function.annotator.client.config.max_consecutive_failures == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperatur": 1}, "did you mean 'temperature'"),
        ({"version": "1"}, "no setting of a language model 'version'"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"concurrency": "many"}, "concurrency must be a whole number"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"prompt": "Mark it"}, "prompt must contain {text}"),
        ({"options": {"model": "x"}}, "options must not contain 'model'"),
        ({"options": {"x": object()}}, "options must be JSON-serializable"),
        ({"examples": [("Bo", [("Bo", "CITY")])]}, "example 'Bo'"),
        ({"examples": [("Bo", [("Al", "PER")])]}, "example 'Bo'"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        llm("toy", TYPES, **settings)
    assert message in str(caught.value)


def test_types_must_not_be_a_string() -> None:
    with pytest.raises(ConfigError, match="types must be a list or a mapping"):
        llm("toy", "PER")


def test_types_that_differ_only_in_case_are_distinct() -> None:
    with Server(lambda text, n: quotes_response(("a", "per"), ("b", "PER"), ("c", "Loc"))) as server:
        function = llm("toy", ["PER", "per", "LOC"], base_url=server.url)
        assert function(["a", "b", "c"]) == [(0, 1, "per"), (1, 2, "PER"), (2, 3, "LOC")]


def test_the_table_shows_all_counts() -> None:
    with Server(lambda text, n: Response(status=500)) as server:
        function = source(server, max_attempts=1)
        found(function, "a", "b")
    rows = dict(function.usage.table().rows)
    assert rows["texts"] == 2
    assert rows["texts without a response (abstains)"] == 2
    assert rows["  HTTP 500"] == 2
    assert "HTTP 500" in str(function.usage)
