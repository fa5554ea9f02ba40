"""A head is read as the expressions read it that say what RFC 9112 allows, on thousands of generated heads."""

import contextlib
import re
import socket
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lambda_lock.transport import http1
from lambda_lock.transport.endpoint import Endpoint

from .conftest import cut, say

# What a status line and the fields of a head are. Source: RFC 9112, sections 4 and 5; RFC 9110, section 5.
STATUS = re.compile(rb"HTTP/1\.([01]) ([2-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*")

REAL = (
    b"HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Sat, 21 Nov 2026 04:49:13 GMT\r\n"
    b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n"
    b"x-amzn-RequestId: 3D3N7QIVDDPLBA48RFKQ\r\nx-amz-crc32: 2745614147"
)
#: What heads are made of, whole and broken.
PIECES = [
    b"\r\n", b"\r", b"\n", b"\r\n ", b"\r\n\t", b":", b": ", b" :", b"\0", b"\x7f", b"\x85", b"\x1c", b"\xa0", b"\xc0",
    b"HTTP/1.1 200 OK", b"HTTP/1.0 404", b"HTTP/1.1 20", b"HTTP/1.1 100 Continue", b"HTTP/1.1 2000", b"HTTP/2 200",
    b"HTTP/1.1  200", b"http/1.1 200", b"HTTP/1.1 2\xb20", b"HTTP/1.1\t200", b"HTTP/1.1 600 ", b"HTTP/1.1 30",
    b"Content-Length: 2", b"content-length:2", b"CONTENT-LENGTH: \t2 ", b"Transfer-Encoding: chunked", b"X", b"a-b",
]  # fmt: skip
pieces = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=8).map(b"".join)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A real head in which some bytes were replaced, removed or added."""
    head = REAL
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(head)))
        head = head[:at] + draw(pieces | st.sampled_from(PIECES)) + head[at + draw(st.integers(0, 3)) :]
    return head


def by_expression(head: bytes) -> tuple[int, dict[str, str]] | None:
    """The status and the fields of a head, or None if it is not a valid one."""
    line, *lines = head.split(b"\r\n")
    status, block = STATUS.fullmatch(line), b"\r\n".join((*lines, b""))
    if not status or not FIELDS.fullmatch(block):
        return None
    headers: dict[str, str] = {}
    for one in lines:
        name, _, value = one.decode("latin-1").partition(":")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(status[2]), headers


def by_transport(head: bytes) -> tuple[int, dict[str, str]] | None:
    line, _, fields = head.partition(b"\r\n")
    try:
        return http1._status(line), http1._fields(fields) if fields else {}
    except http1.Malformed:
        return None


@pytest.mark.parametrize("examples", [300, pytest.param(2000, marks=pytest.mark.long)])
def test_a_head_is_read_as_by_the_expressions_of_its_grammar(examples):
    @settings(max_examples=examples)
    @given(pieces | changed() | pieces.map(b"HTTP/1.1 200 OK\r\n".__add__))
    @example(b"HTTP/1.1 30")
    @example(b"HTTP/1.1 200 OK\r\nA: b\r\n")
    @example(b"HTTP/1.1 200 OK\r\nA:\rb\nc: d")
    @example(b"HTTP/1.1 200 OK\r\nA: b\r\n folded: c")
    @example(b"HTTP/1.1 200 OK\r\n\xc0: b")
    @example(b"HTTP/1.1 200 OK\r\n: b")
    @example(b"HTTP/1.1 200 OK\r\nA : b")
    @example(b"HTTP/1.1 200 OK\r\nA: \xa0b\x85")
    def check(head):
        if not head.endswith(b"\r\n"):  # such a head would end before
            assert by_transport(head) == by_expression(head)

    check()


@pytest.mark.parametrize("has_poll", [True, False])
def test_an_idle_connection_is_quiet_until_there_is_something_to_read(has_poll, monkeypatch, stub):
    if not has_poll:
        monkeypatch.delattr("select.poll")
    stub.script = [say(REAL + b"\r\n\r\n{}"), cut]
    with contextlib.closing(http1.Connection(Endpoint(stub.url), None, time.monotonic() + 20)) as connection:
        connection.exchange(b"x\r\n\r\n", time.monotonic() + 20)
        assert connection.is_quiet()
        connection._socket.sendall(b"x\r\n\r\n")  # the server ends the connection now
        connection._socket.settimeout(20)
        assert socket.socket.recv(connection._socket, 1, socket.MSG_PEEK) == b""
        assert not connection.is_quiet()
        connection.close()
        assert not connection.is_quiet()
