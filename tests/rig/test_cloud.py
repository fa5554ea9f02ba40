"""Queues and rules feed real functions. A message can come again in many ways, and all of them are tried."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.cloud import ACCOUNT, SERVICES, Cloud, Counts, Function
from rig.engine import REGION, Ministack
from rig.lambda_runtime import FunctionError

pytestmark = pytest.mark.ministack_only("queues, rules and functions")

HANDLERS = Path(__file__).parent / "handlers"
SOON = 3  # seconds until a message comes again; longer than a busy machine takes to handle and delete it
Note = dict[str, Any]
Notes = Callable[..., list[Note]]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cloud") / "record"
    path.touch()
    return path


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=SERVICES) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture(scope="module")
def consumer(cloud: Cloud, record: Path) -> Function:
    """A function with a timeout that is long enough for all tests. It is warm: no test waits for its process."""
    function = cloud.function(
        "consumer.handler", HANDLERS, environment={"RECORD": str(record), "SOME_VARIABLE": "x"}, timeout=30
    )
    function.invoke({"id": "warm"})
    return function


@pytest.fixture
def notes(record: Path) -> Notes:
    """Reads the notes about the named messages or events, in the order in which they were written."""

    def read(*names: str) -> list[Note]:
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return [line for line in lines if line["id"] in names]

    return read


def steps(notes: list[Note]) -> list[tuple[str, int]]:
    return [(note["what"], note["receives"]) for note in notes]


def test_a_function_runs_under_the_unmodified_awslambdaric(cloud, consumer):
    answer = consumer.invoke({"id": "direct"})
    assert answer["command"] == ["-m", "awslambdaric", "consumer.handler"]
    assert answer["file"] == str(
        importlib.metadata.distribution("awslambdaric").locate_file("awslambdaric/__init__.py")
    )
    assert answer["context"] == "awslambdaric.lambda_context"
    assert answer["function"] == consumer.name
    assert answer["variable"] == "x"
    assert answer["endpoint"] == cloud.engine.url
    assert 3_000 < answer["remaining"] <= 30_000


def test_an_error_of_the_handler_reaches_the_caller_and_its_lines_the_log(cloud, consumer):
    with pytest.raises(FunctionError, match="KeyError: 'id'"):
        consumer.invoke({})
    cloud.wait_until(lambda: any("KeyError" in line for line in consumer.lines))
    assert any(line.startswith("handling ") for line in consumer.lines)
    assert "KeyError" in cloud.report()


def test_a_message_is_consumed_once_and_is_gone(cloud, consumer, notes):
    queue = cloud.queue("plain", visibility=30)
    cloud.subscribe(queue, consumer)
    (message_id,) = queue.send({"id": "plain"})
    cloud.wait_until(lambda: notes("plain") and queue.is_empty())
    assert message_id
    assert steps(notes("plain")) == [("start", 1), ("end", 1)]


@pytest.mark.long
def test_only_the_message_reported_comes_again(cloud, consumer, notes):
    queue = cloud.queue("partial", visibility=SOON)
    queue.send({"id": "kept-1"}, {"id": "returned", "do": "report"}, {"id": "kept-2"})
    cloud.subscribe(queue, consumer)
    cloud.wait_until(lambda: len(notes("returned")) == 4 and queue.is_empty())
    assert steps(notes("returned")) == [("start", 1), ("end", 1), ("start", 2), ("end", 2)]
    assert steps(notes("kept-1", "kept-2")) == [("start", 1), ("end", 1)] * 2


@pytest.mark.long
@pytest.mark.parametrize("how", ["raise", "exit"])
def test_the_whole_batch_of_a_handler_that_crashes_comes_again(cloud, consumer, notes, how):
    queue = cloud.queue(f"crash-{how}", visibility=SOON)
    queue.send({"id": f"before-{how}"}, {"id": f"crash-{how}", "do": how})
    cloud.subscribe(queue, consumer)
    cloud.wait_until(lambda: len(notes(f"crash-{how}")) == 3 and queue.is_empty())
    assert steps(notes(f"before-{how}")) == [("start", 1), ("end", 1), ("start", 2), ("end", 2)]
    assert steps(notes(f"crash-{how}")) == [("start", 1), ("start", 2), ("end", 2)]


@pytest.mark.long
def test_the_batch_of_a_handler_that_times_out_comes_again_in_another_process(cloud, record, notes):
    hurried = cloud.function("consumer.handler", HANDLERS, environment={"RECORD": str(record)}, timeout=2)
    queue = cloud.queue("timeout", visibility=4)
    cloud.subscribe(queue, hurried)
    queue.send({"id": "hanging", "do": "hang"})
    cloud.wait_until(lambda: len(notes("hanging")) == 3 and queue.is_empty())
    first, second, _ = notes("hanging")
    assert steps(notes("hanging")) == [("start", 1), ("start", 2), ("end", 2)]
    assert first["pid"] != second["pid"]
    assert not Path(f"/proc/{first['pid']}").exists()  # it was killed, not just overtaken by the second


def test_a_handler_slower_than_the_visibility_timeout_is_run_a_second_time_beside_the_first(cloud, consumer, notes):
    queue = cloud.queue("slow", visibility=SOON)
    cloud.subscribe(queue, consumer)
    queue.send({"id": "slow", "do": "meet"})
    cloud.wait_until(lambda: len(notes("slow")) == 4 and queue.is_empty())
    assert [what for what, _ in steps(notes("slow"))] == ["start", "start", "end", "end"]
    assert len({note["pid"] for note in notes("slow")}) == 2


@pytest.mark.parametrize(
    ("concurrency", "maximum_concurrency", "most"), [(None, 2, 2), (1, None, 1)], ids=["of the mapping", "reserved"]
)
def test_no_more_batches_are_under_way_at_once_than_were_allowed(
    cloud, record, notes, concurrency, maximum_concurrency, most
):
    function = cloud.function(
        "consumer.handler", HANDLERS, environment={"RECORD": str(record)}, timeout=30, concurrency=concurrency
    )
    queue = cloud.queue(f"crowd-{most}")
    names = [f"crowd-{most}-{number}" for number in range(4)]
    queue.send(*({"id": name, "do": "linger"} for name in names))
    cloud.subscribe(queue, function, batch_size=1, maximum_concurrency=maximum_concurrency)
    cloud.wait_until(lambda: len(notes(*names)) == 8 and queue.is_empty())
    under_way = itertools.accumulate(1 if note["what"] == "start" else -1 for note in notes(*names))
    assert max(under_way) <= most


@pytest.mark.long
def test_a_message_received_too_often_goes_to_the_dead_letter_queue(cloud, consumer, notes):
    queue = cloud.queue("poison", visibility=SOON, dead_letter_after=2)
    cloud.subscribe(queue, consumer)
    queue.send({"id": "poison", "do": "report", "receives": 99})
    cloud.wait_until(queue.is_empty)
    assert queue.dead_letters.counts() == Counts(visible=1, in_flight=0, delayed=0)
    (dead,) = queue.dead_letters.receive()
    assert json.loads(dead["Body"])["id"] == "poison"
    assert steps(notes("poison")) == [("start", 1), ("end", 1), ("start", 2), ("end", 2)]


def test_a_fifo_group_keeps_its_order_also_where_a_message_comes_again(cloud, consumer, notes):
    queue = cloud.queue("ordered.fifo", visibility=SOON)
    names = [f"ordered-{number}" for number in range(12)]
    queue.send(*({"id": name, "do": "raise" if name == names[0] else None} for name in names), group="g")
    cloud.subscribe(queue, consumer, batch_size=5)
    cloud.wait_until(lambda: notes(names[-1]) and queue.is_empty())
    assert [note["id"] for note in notes(*names) if note["what"] == "end"] == names


def test_a_fifo_group_loses_what_the_handler_does_not_report_after_a_failure(cloud, consumer, notes):
    queue = cloud.queue("unreported.fifo", visibility=SOON)
    queue.send({"id": "first", "do": "report"}, {"id": "later"}, group="g")
    cloud.subscribe(queue, consumer)
    cloud.wait_until(lambda: len(notes("first")) == 4 and queue.is_empty())
    assert steps(notes("later")) == [("start", 1), ("end", 1)]  # and before the first message was consumed


def test_a_rule_brings_the_events_of_its_pattern(cloud, consumer, notes):
    cloud.rule({"source": ["com.example.billing"], "detail-type": ["InvoiceRequested"]}, consumer)
    other = cloud.put_event("com.example.other", "InvoiceRequested", {})
    event_id = cloud.put_event("com.example.billing", "InvoiceRequested", {"customer_id": "c-42"})
    cloud.wait_until(lambda: notes(event_id))
    (note,) = notes(event_id)
    assert note["event"]["detail"] == {"customer_id": "c-42"}
    assert note["event"]["detail-type"] == "InvoiceRequested"
    assert notes(other) == []


def test_a_message_can_be_received_counted_and_deleted_without_a_function(cloud):
    queue = cloud.queue("by-hand", visibility=30)
    sent = queue.send(*range(11), "text")
    assert queue.counts() == Counts(visible=12, in_flight=0, delayed=0)
    messages = queue.receive(wait=1)
    assert [message["Body"] for message in messages] == [str(number) for number in range(10)]
    assert [message["MessageId"] for message in messages] == sent[:10]
    queue.delete(messages[0])
    assert queue.counts() == Counts(visible=2, in_flight=9, delayed=0)
    queue.purge()
    assert queue.is_empty()


def test_a_role_grants_what_it_allows_and_nothing_else(cloud, record):
    cloud.engine.create_table("allowed")
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/allowed"
    function = cloud.function(
        "reader.handler", HANDLERS, timeout=30, allow=[{"Action": ["dynamodb:GetItem"], "Resource": arn}]
    )
    assert function.invoke({"table": "allowed"}) == {"item": None}
    with pytest.raises(FunctionError, match="AccessDenied"):
        function.invoke({"table": "another"})


def test_a_wait_that_ends_in_vain_says_what_there_was_to_see(cloud, consumer):
    cloud.queue("never-empty").send("x")
    with pytest.raises(TimeoutError, match=r"never-empty: Counts\(visible=1, in_flight=0, delayed=0\)"):
        cloud.wait_until(lambda: False, seconds=0)


def test_the_profile_of_the_caller_does_not_matter(cloud, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")
    with Cloud(cloud.engine) as another:
        assert another.queue("profile").is_empty()


def test_a_handler_that_is_not_in_the_folder_is_named(cloud):
    with pytest.raises(ValueError, match=r"handler 'orders\.handler' is not in"):
        cloud.function("orders.handler", HANDLERS)


def test_a_queue_without_dead_letters_says_how_to_get_them(cloud):
    with pytest.raises(ValueError, match="make it with dead_letter_after"):
        _ = cloud.queue("no-dead-letters").dead_letters


def test_a_cloud_removes_what_it_made(cloud, record):
    before = left(cloud)
    with Cloud(cloud.engine) as another:
        function = another.function("consumer.handler", HANDLERS, environment={"RECORD": str(record)}, concurrency=1)
        another.subscribe(another.queue("removed", dead_letter_after=1), function, maximum_concurrency=2)
        another.rule({"source": ["x"]}, function)
        made = {what: count - before[what] for what, count in left(cloud).items()}
        assert made == {"queues": 2, "functions": 1, "mappings": 1, "rules": 1, "roles": 1}
    assert left(cloud) == before


def left(cloud: Cloud) -> dict[str, int]:
    functions = cloud.client("lambda")
    return {
        "queues": len(cloud.client("sqs").list_queues().get("QueueUrls", [])),
        "functions": len(functions.list_functions()["Functions"]),
        "mappings": len(functions.list_event_source_mappings()["EventSourceMappings"]),
        "rules": len(cloud.client("events").list_rules()["Rules"]),
        "roles": len(cloud.client("iam").list_roles()["Roles"]),
    }
