"""A function that returns what has not run yet: its event is not done."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lambda_lock import deduplicate, with_lock
from lambda_lock.batch import kafka_batch, process_sqs, process_stream
from rig import events
from tests.support.context import Context

from .conftest import is_done

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


def fail() -> Any:
    pytest.fail("must not run")


def steps(event: Any) -> Iterator[None]:
    yield fail()


async def steps_async(event: Any) -> AsyncIterator[None]:
    yield fail()


async def work(event: Any) -> None:
    fail()


@contextlib.contextmanager
def block(event: Any) -> Iterator[None]:
    yield fail()


class Delegating:
    """A generator of another make, such as Cython's."""

    def __iter__(self) -> Delegating:
        return self

    def __next__(self) -> None:
        pytest.fail("must not run")

    def send(self, value: Any) -> None: ...
    def throw(self, *error: Any) -> None: ...
    def close(self) -> None: ...


LATER: dict[str, Any] = {
    "generator": steps,
    "async_generator": steps_async,
    "coroutine": work,
    "map": lambda event: map(steps, [event]),
    "filter": lambda event: filter(steps, [event]),
    "starmap": lambda event: itertools.starmap(steps, [(event,)]),
    "accumulate": lambda event: itertools.accumulate([event, event], lambda _, other: steps(other)),
    "dropwhile": lambda event: itertools.dropwhile(steps, [event]),
    "filterfalse": lambda event: itertools.filterfalse(steps, [event]),
    "groupby": lambda event: itertools.groupby([event], steps),
    "takewhile": lambda event: itertools.takewhile(steps, [event]),
    "_GeneratorContextManager": block,
    "Delegating": lambda event: Delegating(),
    "Future": lambda event: concurrent.futures.Future(),
}


@pytest.mark.parametrize("name", LATER)
def test_an_event_is_not_done_by_what_has_not_run_yet(name, once, rows):
    made: list[Any] = []

    def body(event: Any) -> Any:
        made.append(LATER[name](event))
        return made[-1]

    for result in (None, None, "json"):  # the next delivery runs
        with pytest.raises(TypeError, match=rf"body returned {name}, which has not run yet.* @deduplicate takes"):
            once("{id}", scope="", result=result)(body)(EVENT)
    assert not is_done(rows, "e-1")
    assert not rows.is_held("e-1")
    assert len(made) == 3


@pytest.mark.parametrize("name", LATER)
def test_a_record_is_not_done_by_what_has_not_run_yet(name, caplog):
    handler = LATER[name]
    queued, streamed = events.sqs([{"n": 0}]), events.kinesis([("a", {"n": 0})])
    keys: list[dict[str, Any]] = [{}, {"rate": ("api", 1000, 1)}, {"lock_key": "k"}, {"dedup_key": None}]
    for options in keys:
        caplog.clear()
        again = process_sqs(queued, lambda record: handler(record), context=Context(), **options)
        assert again["batchItemFailures"] == [{"itemIdentifier": queued["Records"][0]["messageId"]}], options
        assert f"returned {name}, which has not run yet: the event would count as done. process_sqs" in caplog.text
        again = process_stream(streamed, lambda record: handler(record), context=Context(), **options)
        assert len(again["batchItemFailures"]) == 1, options


def test_a_record_of_kafka_is_not_done_by_a_generator():
    handler = kafka_batch()(lambda record: steps(record))
    assert len(handler(events.kafka([("a-0", None, {"n": 0})]), Context())["batchItemFailures"]) == 1


def test_a_future_that_is_done_counts_as_what_it_did(once, rows):
    made: concurrent.futures.Future[str] = concurrent.futures.Future()
    made.set_result("sent")
    assert once("{id}", scope="")(lambda event: made)(EVENT) is made
    assert is_done(rows, "e-1")
    failed: concurrent.futures.Future[str] = concurrent.futures.Future()
    failed.set_exception(RuntimeError("not sent"))
    with pytest.raises(RuntimeError, match="not sent"):
        once("{id}", scope="")(lambda event: failed)({"id": "e-2"})
    assert not is_done(rows, "e-2")


def test_iterators_over_what_is_there_are_results(once, rows):
    for number, made in enumerate([iter([1]), zip([1], [2], strict=True), enumerate([1])]):
        given: Any = once("{id}", scope="")(lambda event, made=made: made)({"id": f"e-{number}"})
        assert given is made
        assert is_done(rows, f"e-{number}")


def test_an_answer_for_a_duplicate_may_be_a_generator():
    handler: Any = deduplicate("{id}", on_duplicate=lambda event, error: iter([1]))(lambda event: None)
    handler(EVENT)
    assert list(handler(EVENT)) == [1]


def test_a_lock_is_released_before_a_generator_runs_as_documented():
    def body(event: Any) -> Any:
        return (number for number in [1])

    assert list(with_lock("k")(body)(EVENT)) == [1]
