"""The wire counts what was sent, and each fault does to the engine and the client what its name says."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from rig.engine import Ministack, request_headers
from rig.wire import Wire
from tests.support.waiting import wait_until


class Client:
    """A connection that is kept alive, without retries, so that everything on the wire is visible."""

    def __init__(self, wire: Wire, table: str) -> None:
        self.table = table
        self.connection = http.client.HTTPConnection("127.0.0.1", int(wire.url.rpartition(":")[2]), timeout=30)

    def send(self, operation: str, **request: Any) -> tuple[int, dict[str, Any]]:
        body = json.dumps({"TableName": self.table, **request})
        try:
            self.connection.request("POST", "/", body, request_headers(operation))
            response = self.connection.getresponse()
            return response.status, json.loads(response.read())
        except BaseException:
            self.connection.close()
            raise

    def count_up(self) -> int:
        """Add one to a counter. Returns its new value, so that every delivery is visible."""
        values = {":one": {"N": "1"}}
        update = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": values, "ReturnValues": "ALL_NEW"}
        status, reply = self.send("UpdateItem", Key={"key": {"S": "counter"}}, **update)
        assert status == 200, reply
        return int(reply["Attributes"]["n"]["N"])

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def client(wire: Wire, table: str) -> Iterator[Client]:
    with closing(Client(wire, table)) as made:
        yield made


def counter(engine: Ministack, table: str) -> int:
    items = engine.scan(table)
    return int(items[0]["n"]["N"]) if items else 0


def cut_off(client: Client) -> None:
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        client.count_up()


def test_requests_are_recorded_with_operation_body_and_status_and_share_a_connection(wire, client, table):
    assert [client.count_up() for _ in range(20)] == list(range(1, 21))
    client.send("GetItem", Key={"wrong": {"S": "x"}})
    assert wire.operations == ["UpdateItem"] * 20 + ["GetItem"]
    assert [request.status for request in wire.requests] == [200] * 20 + [400]
    assert wire.requests[0].body["TableName"] == table
    assert (wire.count(), wire.count("GetItem"), wire.connections) == (21, 1, 1)
    wire.clear()
    assert wire.count() == 0


@pytest.mark.parametrize(
    ("fault", "answered", "delivered"),
    [(Wire.drop_request, False, 0), (Wire.drop_reply, False, 1), (Wire.deliver_twice, True, 2)],
)
def test_a_request_or_its_reply_is_dropped_or_the_request_repeated(
    fault, answered, delivered, wire, client, engine, table
):
    met = fault(wire, "UpdateItem")
    if answered:
        assert client.count_up() == 1  # the first reply
    else:
        cut_off(client)
    assert met.finished.is_set()
    (request,) = wire.requests
    assert (request.status, request.delivered) == (200 if answered else None, delivered)
    assert counter(engine, table) == delivered
    assert client.count_up() == delivered + 1  # the next request passes


def test_a_fault_meets_only_the_requests_it_is_for(wire, client):
    fault = wire.throttle("UpdateItem", times=2, when=lambda request: request.body["Key"] == {"key": {"S": "other"}})
    assert client.count_up() == 1
    assert not fault.reached.is_set()
    statuses = [client.send("UpdateItem", Key={"key": {"S": "other"}})[0] for _ in range(3)]
    assert statuses == [400, 400, 200]


def test_a_delayed_reply_waits_for_its_release(wire, client, engine, table):
    fault = wire.delay_reply()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.count_up)
        assert fault.reached.wait(30)
        while not counter(engine, table):
            pass  # the request is carried out, although its reply is held back
        assert not sent.done()
        fault.release()
        assert sent.result(30) == 1


def test_a_held_request_is_delivered_after_its_sender_gave_up(wire, client, engine, table):
    fault = wire.hold()
    client.connection.connect()
    client.connection.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.count_up()
    assert fault.reached.wait(30)
    assert counter(engine, table) == 0
    fault.release()
    assert fault.finished.wait(30)
    assert counter(engine, table) == 1


def test_a_request_can_be_delivered_late_and_more_than_once(wire, client, engine, table):
    fault = wire.deliver_late(copies=2)
    cut_off(client)
    assert client.count_up() == 1  # this request overtakes it
    fault.release()
    assert fault.finished.wait(30)
    assert counter(engine, table) == 3


def test_errors_are_answered_without_the_engine(wire, client, engine, table):
    wire.unavailable()
    wire.throttle()
    wire.answer(500, "InternalServerError")
    answers = [client.send("UpdateItem", Key={"key": {"S": "counter"}}) for _ in range(3)]
    assert [status for status, _ in answers] == [503, 400, 500]
    assert answers[1][1]["__type"].endswith("#ProvisionedThroughputExceededException")
    assert engine.scan(table) == []


def test_a_closed_wire_leaves_no_thread_and_drops_what_it_held(engine, table):
    before = set(threading.enumerate())
    with Wire(engine.url) as wire, closing(Client(wire, table)) as client:
        fault = wire.deliver_late()
        cut_off(client)
    wait_until(lambda: set(threading.enumerate()) <= before)  # one that has done its work ends a moment later
    assert fault.finished.is_set()
    assert counter(engine, table) == 0


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 5\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
)
def test_a_request_whose_sender_is_gone_before_its_end_is_none(wire, sent):
    with socket.create_connection(("127.0.0.1", int(wire.url.rpartition(":")[2])), timeout=30) as sender:
        sender.sendall(b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n" + sent)
        sender.shutdown(socket.SHUT_WR)
        assert sender.recv(1) == b""
    assert wire.requests == []
