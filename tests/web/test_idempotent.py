"""The whole answer of an API, once for each Idempotency-Key, in each framework."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from tests.support.elsewhere import in_thread
from tests.support.sampled import sampled
from tests.support.waiting import DEADLINE, wait_until

from .apps import BINARY, FRONTS, Ask, Calls, Said, ask

pytestmark = [pytest.mark.usefixtures("table")]


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture(params=sampled(4, zip(FRONTS)))
def make(request: pytest.FixtureRequest, calls: Calls) -> Any:
    return lambda **options: FRONTS[request.param](calls, **options)


@pytest.fixture
def front(make: Any) -> Ask:
    front: Ask = make()
    return front


def test_a_repeated_request_is_given_the_same_status_headers_and_body_and_does_nothing(front, calls):
    first = ask(front, "k-1", {"id": 1})
    again = ask(front, "k-1", '{ "id" : 1.0 }')
    assert calls.count == 1
    assert (first.status, json.loads(first.body), first.replayed) == (201, {"n": 1, "text": "é"}, False)
    assert (again.status, again.body, again.replayed) == (201, first.body, True)
    assert first.headers["set-cookie"][0].startswith("a=1")
    assert "set-cookie" not in again.headers
    for dropped in ("set-cookie", "date", "idempotent-replayed"):
        first.headers.pop(dropped, None)
        again.headers.pop(dropped, None)
    assert again.headers == first.headers
    assert again.headers["x-count"] == ["1"]
    assert ask(front, "k-2", {"id": 1}).headers["x-count"] == ["2"]


def test_a_binary_body_comes_back(front, calls):
    assert ask(front, "k-1", {"binary": True}).body == ask(front, "k-1", {"binary": True}).body == BINARY
    assert calls.count == 1


def test_the_same_key_with_another_payload_is_answered_with_422(front, calls):
    ask(front, "k-1", {"id": 1})
    for answer in (ask(front, "k-1", {"id": 2}), ask(front, "k-1", {"id": 1}, query="dry")):
        assert answer.status == json.loads(answer.body)["status"] == 422
        assert answer.headers["content-type"][0].startswith("application/problem+json")
    assert calls.count == 1
    assert ask(front, "k-1", {"id": 1}).replayed


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{"a": 1.10, "b": [null, {"c": "x"}]}', ' {"b":[null,{"c":"\\u0078"}],"a":1.1}', True),
        ('{"id": 12345678901234567890}', '{"id": 12345678901234567891}', False),
        ('{"a": 10000000000000000.1}', '{"a": 10000000000000000.2}', False),
        ('{"a": true}', '{"a": 1}', False),
        ('{"a": null}', "{}", False),
        ("", "{}", False),
    ],
)
def test_json_counts_as_what_it_says(first, second, same, front, calls):
    assert ask(front, "k-1", first).status == 201
    answer = ask(front, "k-1", second)
    assert (answer.status, answer.replayed, calls.count) == (201 if same else 422, same, 1)


@pytest.mark.parametrize("body", ["no JSON", '{"a": 1', "\ufeff{}", "[" * 50_000, "[" * 900 + "]" * 900])
def test_a_body_that_is_no_json_or_nested_too_deeply_counts_as_it_is(body, front, calls, monkeypatch):
    work = calls.work
    monkeypatch.setattr(calls, "work", lambda given: work("{}"))
    first, again, other = (ask(front, "k-1", text) for text in (body, body, f" {body}"))
    assert (first.status, again.status, again.replayed, other.status, calls.count) == (201, 201, True, 422, 1)


def test_the_same_key_at_another_route_is_another_request(front, calls):
    assert ask(front, "k-1", {"id": 1}).status == ask(front, "k-1", {"id": 1}, "/refunds").status == 201
    assert calls.count == 2
    assert ask(front, "k-1", {"id": 1}, "/refunds").headers["x-count"] == ["2"]


@pytest.mark.parametrize(
    "key", ["", " ", '""', '"a', 'a"b"\x7f', "\x01", "é", '"a"b"', '"a";b=1', "k" * 2048, "k" * 2030]
)
def test_a_key_that_cannot_be_used_is_400(key, front, calls):
    answer = ask(front, key, {"id": 1})
    assert answer.status == json.loads(answer.body)["status"] == 400
    assert calls.count == 0


@pytest.mark.parametrize("key", ['"k-1"', " k-1 ", "k-1\t"])
def test_a_quoted_key_is_what_it_says(key, front, calls):
    ask(front, "k-1", {"id": 1})
    assert ask(front, key, {"id": 1}).replayed


def test_a_request_that_is_running_is_409_with_whole_seconds(front, calls):
    during = []

    def once_more() -> None:
        calls.during = None
        during.append(in_thread(lambda: ask(front, "k-1", {"id": 1}))())

    calls.during = once_more
    assert ask(front, "k-1", {"id": 1}).status == 201
    (answer,) = during
    assert answer.status == json.loads(answer.body)["status"] == 409
    assert int(answer.headers["retry-after"][0]) >= 1
    assert calls.count == 1


@pytest.mark.parametrize("wait", [0, DEADLINE])
def test_of_many_at_once_one_is_carried_out_and_who_waits_is_given_its_answer(wait, make, calls):
    front, said = make(wait=wait), list[Said]()
    if not wait:
        calls.during = lambda: wait_until(lambda: len(said) == 7)
    asking = [in_thread(lambda: said.append(ask(front, "k-1", {"id": 1}))) for _ in range(8)]
    for end in asking:
        end()
    assert calls.count == 1
    assert len({answer.body for answer in said if answer.status == 201}) == 1
    others = (201, True) if wait else (409, False)
    assert sorted((answer.status, answer.replayed) for answer in said) == sorted([(201, False)] + [others] * 7)


@pytest.mark.parametrize(
    ("status", "carried_out"),
    [
        *((status, 2) for status in (500, 503, 408, 409, 425, 429)),
        *((status, 1) for status in (200, 302, 401, 403, 404, 422)),
    ],
)
def test_an_answer_is_kept_unless_it_may_be_another_one_later(status, carried_out, front, calls):
    assert ask(front, "k-1", {"status": status}).status == ask(front, "k-1", {"status": status}).status == status
    assert calls.count == carried_out


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_kept(status, front, calls):
    numbers = iter("ab")
    calls.work = lambda body: (status, {"Content-Type": "text/plain", "ETag": f'"{next(numbers)}"'}, b"")
    first, again = ask(front, "k-1", {}), ask(front, "k-1", {})
    assert (first.status, first.headers["etag"], first.body) == (status, ['"a"'], b"")
    assert (again.status, again.headers["etag"], again.body, again.replayed) == (status, ['"a"'], b"", True)


def test_store_says_what_is_kept(make, calls):
    front = make(store=lambda status: status == 500)
    for status in (201, 201, 500, 500):
        ask(front, f"k-{status}", {"status": status})
    assert calls.count == 3


def test_callers_do_not_get_each_other_s_answers(make, calls):
    front = make(caller="{headers[X-Api-Key]}")
    one, other = (ask(front, "k-1", {"id": 1}, x_api_key=name) for name in ("one", "other"))
    assert (one.headers["x-count"], other.headers["x-count"]) == (["1"], ["2"])
    assert ask(front, "k-1", {"id": 1}, x_api_key="one").headers["x-count"] == ["1"]
    nobody = ask(front, "k-1", {"id": 1})
    assert (nobody.status, json.loads(nobody.body)["detail"]) == (400, "The request does not say who calls.")
    assert calls.count == 2


def test_an_answer_that_is_too_large_is_given_and_told_once_and_its_request_counts_as_done(front, calls, caplog):
    for key in ("k-1", "k-2"):
        assert len(ask(front, key, {"size": 200_000}).body) > 400_000
        answer = ask(front, key, {"size": 200_000})
        assert (answer.status, "retry-after" in answer.headers) == (409, False)
    assert calls.count == 2
    told = [record for record in caplog.records if record.__dict__.get("lock_event") == "answer_not_kept"]
    assert len(told) == 1


def test_an_error_gives_the_key_back(front, calls):
    with suppress(RuntimeError):  # some answer 500, others leave that to the server
        assert ask(front, "k-1", {"fail": True}).status >= 500
    assert ask(front, "k-1", {"id": 1}).status == 201
