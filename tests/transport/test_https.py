import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_lock.errors import LockConfigurationError
from lambda_lock.transport import (
    ConditionFailed,
    HttpsTransport,
    ServiceError,
    TransactionCanceled,
    TransportError,
    http1,
)
from lambda_lock.transport.http1 import IDLE, MAX_BODY, MAX_HEAD
from lambda_lock.transport.unresolved import refuse_unknown_host
from rig.engine import free_port
from tests.support.waiting import wait_until

from .conftest import DATE, EPOCH, ITEM, KEYS, Say, Stub, answer, cut, drip, error, fails, get, say, silence

KIND = b"Content-Type: application/x-amz-json-1.0\r\n"
DEEP = b"[" * 100_000


# What is sent


def test_a_request_is_a_signed_post_with_its_json(stub, https):
    get(https)
    head = stub.requests[0].partition(b"\r\n\r\n")[0].decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in head[1:])
    assert head[0] == "POST / HTTP/1.1"
    assert fields["Host"] == f"127.0.0.1:{stub.port}"
    assert fields["X-Amz-Target"] == "DynamoDB_20120810.GetItem"
    assert fields["User-Agent"].startswith("lambda-lock/")
    assert "/eu-west-1/dynamodb/aws4_request" in fields["Authorization"]
    assert stub.bodies() == [{"TableName": "locks", "Key": ITEM}]


def test_the_signature_has_the_time_that_the_caller_gives_or_that_of_the_wall_clock(stub, connect):
    times = iter([EPOCH, EPOCH + 3600])
    transport = connect(stub.url, now=lambda: next(times))
    get(transport)
    get(transport)
    before = time.gmtime()
    get(connect(stub.url))
    for request, said in zip(stub.requests, ("20261121T044913Z", "20261121T054913Z", "%Y%m%d"), strict=True):
        assert time.strftime(f"X-Amz-Date: {said}", before).encode() in request


def test_a_transport_opens_nothing_before_the_first_send(stub, https):
    assert https.name == "https"
    assert https.reason
    assert stub.connections == 0


@pytest.mark.parametrize(
    ("region", "endpoint", "says"),
    [
        *(("", "http://h", "Region"), ("eu west", "http://h", "Region")),
        *(("eu-west-1", "h", "endpoint"), ("eu-west-1", "https://host/dynamodb", "boto3")),
    ],
)
def test_a_transport_is_not_made_with_a_bad_region_or_endpoint(region, endpoint, says):
    with pytest.raises(LockConfigurationError, match=says):
        HttpsTransport(region, endpoint, KEYS)


# What an answer means


@pytest.mark.parametrize(
    ("operation", "body", "item"),
    [
        ("GetItem", {"Item": ITEM}, ITEM),
        ("GetItem", {}, None),
        ("PutItem", {}, None),
        ("UpdateItem", {"Attributes": ITEM}, ITEM),
        ("DeleteItem", {"Attributes": ITEM}, ITEM),
        ("TransactWriteItems", {}, {}),
        ("Query", {"Items": [ITEM], "Count": 1}, {"Items": [ITEM], "Count": 1}),
        ("DescribeTable", {"Table": {"TableName": "locks"}}, {"Table": {"TableName": "locks"}}),
    ],
)
def test_a_reply_has_the_item_or_the_whole_answer_and_the_date(stub, https, operation, body, item):
    stub.script = [say(answer(body))]
    reply = https.send(operation, {}, timeout=20)
    assert (reply.item, reply.date) == (item, EPOCH)


def test_a_reply_without_date_has_none(stub, https):
    undated = b"HTTP/1.1 200 OK\r\n" + KIND + b"Content-Length: 2\r\n\r\n{}"
    stub.script = [say(undated), say(answer(headers={"Date": "yesterday"}))]
    assert [get(https).date, get(https).date] == [None, None]


@pytest.mark.parametrize("shown", [{"Item": ITEM}, {}], ids=str)
def test_a_failed_condition_shows_what_stood_there(stub, client, shown):
    stub.script = [say(error("ConditionalCheckFailedException", "no", **shown))]
    with pytest.raises(ConditionFailed) as caught:
        get(client.transport)
    assert (caught.value.item, caught.value.date) == (shown.get("Item"), EPOCH)


def test_a_cancelled_transaction_gives_the_codes_and_items_in_order(stub, client):
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "m", "Item": ITEM}, {}]
    stub.script = [say(error("TransactionCanceledException", CancellationReasons=reasons))]
    deletion = {"Delete": {"TableName": "locks", "Key": ITEM}}
    with pytest.raises(TransactionCanceled) as caught:
        client.transport.send("TransactWriteItems", {"TransactItems": [deletion]}, timeout=20)
    told = caught.value.reasons, caught.value.items, caught.value.date
    assert told == (["None", "ConditionalCheckFailed", "None"], [None, ITEM, None], EPOCH)


SIGNATURE = "InvalidSignatureException"


@pytest.mark.parametrize(
    ("code", "message", "retryable"),
    [
        *((f"{name}Exception", "", True) for name in ("Throttling", "ProvisionedThroughputExceeded", "LimitExceeded")),
        *((f"{name}Exception", "", True) for name in ("TransactionConflict", "TransactionInProgress")),
        ("RequestLimitExceeded", "", True),
        ("RequestTimeTooSkewed", "", True),
        (SIGNATURE, "Signature expired: 20261121T044913Z is now earlier than 20261121T045000Z", True),
        (SIGNATURE, "Signature not yet current: 20261121T044913Z is still later than", True),
        (SIGNATURE, "The request signature we calculated does not match", False),
        *((f"{name}Exception", "", False) for name in ("Validation", "ResourceNotFound", "ExpiredToken")),
        ("AccessDeniedException", "User: x is not authorized", False),
    ],
)
def test_a_refusal_says_whether_to_send_again(stub, client, code, message, retryable):
    stub.script = [say(error(code, message))]
    with pytest.raises(ServiceError) as caught:
        get(client.transport)
    refused = caught.value
    if client.transport.name == "boto3" and code in (SIGNATURE, "RequestTimeTooSkewed"):
        retryable = False  # over HTTPS, the next signature has the answer's time
    assert (refused.code, refused.message, refused.retryable, refused.date) == (code, message, retryable, EPOCH)


def test_a_message_may_be_spelled_with_a_capital(stub, https):
    stub.script = [say(answer({"__type": "ns#ValidationException", "Message": "why"}, 400))]
    with pytest.raises(ServiceError, match="why"):
        get(https)


@pytest.mark.parametrize(
    "data",
    [
        *(error(code, status=500) for code in ("InternalServerError", "ThrottlingException")),
        error("ServiceUnavailable", status=503),
        answer(b"<html>bad gateway</html>", 502),
        answer(b"<html>who are you</html>", 403),
        answer({"message": "no type"}, 400),
        answer(b"", 301),
        *map(answer, (b"<html>welcome</html>", b"[1]", b"", DEEP, b'{"Item": ' + DEEP)),
        *(answer({"Item": ITEM}, headers={"x-amz-crc32": checksum}) for checksum in ("1", "one")),
        *(
            answer({"Item": ITEM}, headers={"Content-Type": kind})
            for kind in ("", "application/json", "application/x-amz-json-1.1")
        ),
        answer({"__type": "ns#ValidationException"}, 400, headers={"Content-Type": "application/json"}),
        answer({"__type": "ns#ConditionalCheckFailedException"}),
        answer({"Item": ITEM}, headers={"x-amzn-ErrorType": "ThrottlingException"}),
        answer(DEEP, 400),
        error("TransactionCanceledException"),
        *(error("TransactionCanceledException", CancellationReasons=said) for said in ([None], {"Code": "None"})),
    ],
)
def test_an_answer_that_is_not_dynamodbs_word_is_ambiguous(stub, https, data):
    stub.script = [say(data)]
    fails(https, ambiguous=True)
    assert len(stub.requests) == 1  # whether to send again is up to the core


# HTTP

CHUNKED = b"HTTP/1.1 200 OK\r\n" + KIND + b"Date: " + DATE.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b'5;a="b"\r\n{"a":\r\n00003\r\n 1}\r\n0\r\nTrailer: x\r\n\r\n',
        b"HTTP/1.1 200\r\nDATE:" + DATE.encode() + b"\t\r\n" + KIND.lower() + b"content-length:2\r\n\r\n{}",
        answer({"Item": ITEM}),
    ],
)
def test_an_answer_may_come_in_any_pieces(stub, https, data):
    def in_pieces(size: int) -> Say:
        def speak(_: Stub, connection: socket.socket) -> bool:
            for at in range(0, len(data), size):
                connection.sendall(data[at : at + size])
            return True

        return speak

    sizes = (1, 2, 3, 7, 50, len(data))
    stub.script = [in_pieces(size) for size in sizes]
    assert [get(https).date for _ in sizes] == [EPOCH] * len(sizes)
    assert stub.connections == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.sampled_from([CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", answer({"Item": ITEM})]), st.data())
def test_every_answer_that_is_cut_short_is_ambiguous(stub, https, whole, data):
    part = whole[: data.draw(st.integers(min_value=0, max_value=len(whole) - 1))]
    stub.script = [say(part, close=True)]
    fails(https, ambiguous=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda junk: b"HTTP/1.1 200 OK\r\n" + junk + b"\r\n\r\n"))
def test_garbage_is_ambiguous(stub, https, junk):
    stub.script = [say(junk, close=True)]
    fails(https, ambiguous=True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * (MAX_HEAD + 1) + b"\r\nContent-Length: 2\r\n\r\n{}",
        CHUNKED + b"2\r\n{}x\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"%x\r\n" % (MAX_BODY + 1),
        CHUNKED + b"2\r\n{}\r\n0\r\nnot a trailer\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * MAX_HEAD + b"\r\n",
    ],
)
def test_an_answer_outside_the_grammar_is_ambiguous_and_ends_the_connection(stub, https, data):
    stub.script = [say(data.replace(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n" + KIND))]
    fails(https, ambiguous=True)
    get(https)
    assert stub.connections == 2


@pytest.mark.parametrize(
    "line",
    [
        b"A:" + b" " * 3000 + b"\x01",
        b"A:" + b" \t" * 30_000 + b"\x01",
        b"A:" + b" b" * 30_000 + b"\x7f",
        b"A" * 60_000,
        b"A:" + b" " * 60_000,
        b"\r\n".join([b"A:" + b" " * 100 + b"b"] * 500),
        b"\r\n".join([b"A:"] * 15_000),
    ],
)
def test_no_header_keeps_the_process_for_long(line):
    # In CPU time: the expression for a header once took 17 s for the first of these, and far longer for the next.
    began = time.process_time()
    with contextlib.suppress(http1.Malformed):
        http1._fields(line)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("cause", [cut, say(b"HTTP/1.1 200 OK\r\nContent-Le", close=True)])
def test_a_cut_connection_is_ambiguous_and_has_its_cause(stub, https, cause):
    stub.script = [cause]
    caught = fails(https, ambiguous=True)
    assert isinstance(caught.__cause__, OSError)
    assert "may have been carried out" in str(caught)


@pytest.mark.parametrize("slow", [silence, drip])
def test_an_answer_that_does_not_come_in_time_is_ambiguous_and_its_connection_never_used_again(stub, https, slow):
    stub.script = [slow]
    caught = fails(https, ambiguous=True, timeout=0.2)
    assert isinstance(caught.__cause__, TimeoutError)
    assert "timed out" in str(caught)
    get(https)
    assert stub.connections == 2


def test_an_interrupt_while_waiting_closes_the_connection(stub):
    script = """
import signal, sys, time
from lambda_lock.transport import Credentials, HttpsTransport
signal.signal(signal.SIGINT, signal.default_int_handler)
transport = HttpsTransport("eu-west-1", sys.argv[1], Credentials("a", "b"))
try:
    transport.send("GetItem", {}, timeout=60)
except KeyboardInterrupt:
    transport.send("GetItem", {}, timeout=60)
"""
    stub.script = [silence]
    with subprocess.Popen([sys.executable, "-c", script, stub.url]) as process:
        wait_until(lambda: stub.requests)
        process.send_signal(signal.SIGINT)
        assert stub.hung_up.wait(20)
        assert process.wait(20) == 0
    assert stub.connections == 2


def test_an_answer_on_an_open_connection_is_awaited_for_a_second_only(stub, https):
    stub.script = [say(answer()), silence]
    get(https)
    fails(https, ambiguous=True, timeout=3600)  # otherwise the test would hang here


def test_no_time_left_means_that_nothing_was_sent(stub, https):
    fails(https, ambiguous=False, timeout=0)
    assert stub.requests == []


def test_a_refused_connection_is_not_ambiguous_and_leaves_no_socket_open_while_its_error_is_kept(connect):
    """The error's traceback keeps the frame of the attempt, and thereby the socket itself."""
    transport = connect(f"http://127.0.0.1:{free_port()}")
    before = open_descriptors()
    caught = fails(transport, ambiguous=False)
    assert isinstance(caught.__cause__, ConnectionRefusedError)
    assert open_descriptors() == before


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (socket.EAI_AGAIN, TransportError, "nothing was sent"),
        (socket.EAI_NONAME, LockConfigurationError, r"no host 'no-such-host.invalid', so nothing was sent"),
    ],
)
def test_a_name_that_cannot_be_looked_up_is_not_ambiguous_and_one_that_does_not_exist_a_mistake(
    monkeypatch, connect, code, kind, says
):
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(code, "no name server answers so")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(kind, match=says) as caught:
        get(connect("http://no-such-host.invalid"))
    assert isinstance(caught.value.__cause__, socket.gaierror)
    assert not getattr(caught.value, "ambiguous", False)


def test_a_host_that_does_not_exist_is_found_also_where_a_library_raised_its_own_error_without_naming_a_cause():
    try:
        try:
            raise socket.gaierror(socket.EAI_NONAME, "there is no such name")
        except socket.gaierror:
            raise ValueError("could not connect")  # noqa: B904 - as libraries do
    except ValueError as error:
        with pytest.raises(LockConfigurationError, match=r"no host 'no-such-host.invalid'"):
            refuse_unknown_host(error, "no-such-host.invalid")


def test_a_host_may_be_a_name_with_several_addresses(stub, connect):
    get(connect(f"http://localhost:{stub.port}"))  # the stub listens on IPv4 only, and localhost may also be ::1
    assert len(stub.requests) == 1


def test_a_body_of_many_packets_goes_through(stub, https):
    big = {"key": {"S": "x" * 3_000_000}}
    stub.script = [say(answer({"Item": big}))]
    assert https.send("GetItem", {"Key": big}, timeout=60).item == big
    assert stub.bodies() == [{"Key": big}]


# Keep-alive


def test_requests_go_over_one_connection(stub, https):
    stub.script = [say(answer()), say(error("ValidationException")), say(error("InternalServerError", status=500))]
    get(https)
    with pytest.raises(ServiceError):
        get(https)
    fails(https, ambiguous=True)  # although the answer is complete
    get(https)
    assert stub.connections == 1


@pytest.mark.parametrize(
    "last",
    [
        answer(headers={"Connection": "close"}),
        answer(headers={"Connection": "Keep-Alive, CLOSE"}),
        b"HTTP/1.0 200 OK\r\n" + KIND + b"Content-Length: 2\r\n\r\n{}",
        answer() + answer({"Item": ITEM}),
    ],
    ids=["Connection: close", "close among others", "HTTP/1.0", "bytes behind the answer"],
)
def test_an_answer_that_ends_its_connection_is_taken_and_the_next_request_gets_another(stub, https, last):
    stub.script = [say(last)]
    assert get(https).item is None
    assert get(https).item is None
    assert stub.connections == 2


def test_a_connection_cut_while_idle_is_replaced_without_an_error(stub, https):
    stub.script = [say(answer(), close=True)]
    get(https)
    assert stub.closed.acquire(timeout=20)
    get(https)
    assert (stub.connections, len(stub.requests)) == (2, 2)


@pytest.mark.parametrize("clock", [0, 1, 2])
def test_a_connection_that_is_old_by_any_clock_is_replaced(stub, https, clock, monkeypatch):
    readings = [100.0, 200.0, 300.0]
    monkeypatch.setattr(http1, "clocks", lambda: tuple(readings))
    get(https)
    readings[clock] += IDLE - 1
    get(https)
    assert stub.connections == 1
    readings[clock] += IDLE + 1
    readings[clock - 1] -= 3600  # a clock that was stepped back does not hide it
    get(https)
    assert stub.connections == 2


def answered_together(count: int) -> list[Say]:
    """So many requests, of which none is answered before all have come."""
    together = threading.Barrier(count)

    def meet(_: Stub, connection: socket.socket) -> bool:
        together.wait(20)
        connection.sendall(answer())
        return True

    return [meet] * count


def test_threads_use_a_connection_each_and_leave_them_for_later(stub, https):
    stub.script = answered_together(8)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: get(https), range(8)))
        assert stub.connections == 8
        list(threads.map(lambda _: get(https), range(100)))
    assert stub.connections == 8


def test_no_more_connections_than_the_bound_are_kept(stub, https, monkeypatch):
    monkeypatch.setattr("lambda_lock.transport.http1.MAX_IDLE", 1)
    stub.script = answered_together(3)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: get(https), range(3)))
    assert [stub.closed.acquire(timeout=20) for _ in range(2)] == [True, True]
    get(https)
    assert stub.connections == 3


def test_close_closes_idle_connections_and_a_later_send_keeps_none(stub, https):
    get(https)
    https.close()
    assert stub.closed.acquire(timeout=20)
    get(https)
    assert stub.closed.acquire(timeout=20)
    assert stub.connections == 2


def test_a_forked_child_does_not_use_its_parents_connection(stub):
    script = """
import os, sys
from lambda_lock.transport import Credentials, HttpsTransport
transport = HttpsTransport("eu-west-1", sys.argv[1], Credentials("a", "b"))
ask = lambda who: transport.send("GetItem", {"TableName": who}, timeout=60)
ask("parent")
child = os.fork()
if not child:
    ask("child")
    ask("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
ask("parent")
"""
    subprocess.run([sys.executable, "-c", script, stub.url], check=True, timeout=60)
    assert [body["TableName"] for body in stub.bodies()] == ["parent", "child", "child", "parent"]
    before, *childs, after = stub.carriers
    assert before == after not in childs
    assert stub.connections == 2


def test_the_seam_has_its_names_and_no_others():
    import lambda_lock.transport as seam

    for name in seam.__all__:
        assert getattr(seam, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = seam.nothing
