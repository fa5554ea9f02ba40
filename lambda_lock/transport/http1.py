"""An HTTP/1.1 client that sends one request at a time. It replaces http.client, which imports email and would add 12 ms
to a cold start.

The rules
---------
1. A request is bytes, and is sent once. A failure before its first byte can have left is
   TransportError(ambiguous=False). A failure after that is ambiguous. This module never sends anything twice. What a
   signal handler raises meanwhile is no failure, even if it is an OSError: it propagates.
2. A connection is reused only if the last answer was read to its end, nothing follows it, and it did not say
   ``Connection: close``. On timeouts, errors and every other BaseException, the connection is closed.
3. An answer must say where it ends (Content-Length or chunked), and its head and body are limited in size. Anything
   that RFC 9112 does not allow, or that was not requested, is an error: this module never guesses. An answer is read in
   time linear in its size. Errors do not show its bytes, which may be secret.
4. An idle connection is closed instead of used if there is something to read (usually its end), or if it is older than
   IDLE by any clock (a frozen environment stops some clocks). A failure on a cut connection would be ambiguous.
5. Connections belong to the process that opened them. A forked child closes its copies, which does not end the parent's
   connection. It sends nothing over TLS either, because TLS connections are never unwrapped.
6. Deadlines are readings of time.monotonic(). They apply to the whole step, including the name look-up, and not to
   single reads.
"""

from __future__ import annotations

import os
import re  # the Lambda runtime has it loaded
import select  # socket has it loaded, through selectors
import socket  # 2.2 ms, and TLS needs it as well
import threading  # the Lambda runtime has it loaded, through logging
import time
from binascii import a2b_base64, b2a_base64
from functools import lru_cache  # the Lambda runtime has these loaded
from operator import sub

from ..core.outcome import expected
from ..errors import LockConfigurationError, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext
    from typing import Any, TypeAlias

    from .endpoint import Endpoint

    #: An HTTP answer: its status, its headers with names in lower case, and its whole body.
    Answer: TypeAlias = tuple[int, dict[str, str], bytes]

ANSWER_TIMEOUT = 1.0  # seconds to wait for an answer on a connection that is open already
IDLE = 20.0  # seconds; front ends and NATs cut idle connections later than that
MAX_IDLE = 32  # how many idle connections are kept
MAX_HEAD = 64 * 1024
MAX_BODY = 16 * 1024 * 1024  # DynamoDB's answers are never larger
_RECEIVE = 64 * 1024
UNTRUSTED = "If a proxy or the endpoint has its own certificate, set AWS_CA_BUNDLE to the file of those to trust"

# The bytes of a head, apart from its line breaks, and those of a field's name in lower case. Heads are checked without
# patterns: compiling two would add 0.5 ms to each cold start.
_TEXT = bytes((0x09, *range(0x20, 0x7F), *range(0x80, 0x100)))
_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_CHUNK = rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?"  # compiled at its first use: DynamoDB sends none
_NO_STATUS = "the first line is not an HTTP/1.1 status line"
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)
_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")  # in the order in which botocore looks at them
# The names of the certificates that are loaded first, and if those are not enough. Then all are. The first signs what
# AWS's endpoints show. https://www.amazontrust.com/repository/: Amazon Root CA 1 to 4, and the older one of them all.
_FIRST = (
    (b"Amazon Root CA 1",),
    (b"Amazon Root CA ", b"Starfield Services Root Certificate Authority - G2"),
)
WHOLE = len(_FIRST)
_BEGIN = b"-----BEGIN CERTIFICATE-----"


class Malformed(Exception):
    """The answer is not HTTP as rule 3 requires."""


class Connection:
    """One open connection. ``reusable`` says whether another request may be sent over it (rule 2)."""

    __slots__ = ("_buffer", "_deadline", "_peer", "_socket", "idle_since", "reusable")

    def __init__(self, endpoint: Endpoint, context: SSLContext | None, deadline: float) -> None:
        """Connect, with TLS if there is a context.

        Raises TransportError(ambiguous=False) if that fails. Raises LockConfigurationError if the certificate is not
        trusted, because trying again would not help.
        """
        self._peer = endpoint.authority
        self._buffer = bytearray()
        self._deadline = deadline
        self.reusable = False
        self.idle_since: tuple[float, ...] = ()
        try:
            self._socket = _dial(endpoint.host, endpoint.port, deadline)
            if context is not None:
                bare = self._socket
                try:
                    bare.settimeout(_left(deadline))  # Python applies it to the whole handshake
                    # Passed as bytes: a str would load the IDNA tables.
                    self._socket = context.wrap_socket(bare, server_hostname=endpoint.host.encode())
                except BaseException:
                    bare.close()
                    raise
        except expected(OSError) as error:
            if type(error).__name__ == "SSLCertVerificationError":  # ssl is loaded only if there is a context
                raise LockConfigurationError(
                    f"the certificate of {self._peer} is not trusted, nothing was sent: {error}. {UNTRUSTED}"
                ) from error
            raise TransportError(
                False, f"could not connect to {self._peer}, nothing was sent: {_why(error)}"
            ) from error

    def exchange(self, request: bytes, deadline: float) -> Answer:
        """Send a request and read the answer. Raises TransportError(ambiguous=True) for every failure."""
        self.reusable = False
        self._deadline = deadline
        try:
            rest = memoryview(request)
            while rest:
                self._socket.settimeout(_left(deadline))
                rest = rest[self._socket.send(rest) :]
            return self._read_answer()
        except expected(OSError, Malformed) as error:
            message = f"no usable answer from {self._peer}, the request may have been carried out: {_why(error)}"
            raise TransportError(True, message) from error
        finally:
            if not self.reusable:
                self.close()

    def is_quiet(self) -> bool:
        """Return whether there is nothing to read. An idle connection must be quiet."""
        if hasattr(select, "poll"):  # Windows has none, and some libraries of green threads remove it
            poll = select.poll()  # it also tells that the connection has ended or failed
            try:
                poll.register(self._socket, select.POLLIN)
            except expected(ValueError):  # another thread has closed it
                return False
            return not poll.poll(0)
        try:
            self._socket.settimeout(0)
            # This uses the plain socket's method: peeking does not work through TLS, and is not needed there.
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except BlockingIOError:  # no "as error": if an interrupt came here, error and frame would keep each other alive
            return True
        except expected(OSError):
            return False
        return False

    def close(self) -> None:
        self._socket.close()

    def _read_answer(self) -> Answer:
        """Return the answer. The connection is reusable unless something follows, or the server says that it is not."""
        head = self._take_line(b"\r\n\r\n", MAX_HEAD)
        line, _, fields = head.partition(b"\r\n")
        status = _status(line)
        headers = _fields(fields) if fields else {}
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                raise Malformed("a Transfer-Encoding other than chunked, or together with a Content-Length")
            body = self._read_chunks()
        elif length is None or not (length.isascii() and length.isdigit()) or len(length) > 10:
            raise Malformed("it is not chunked and has no usable Content-Length")
        else:
            body = self._take(int(length))
        tokens = headers.get("connection", "").lower().replace(" ", "").split(",")
        self.reusable = line.startswith(b"HTTP/1.1") and "close" not in tokens and not self._buffer
        return status, headers, body

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = self._take_line(b"\r\n", 1024)
            size = re.fullmatch(_CHUNK, line)
            if not size:
                raise Malformed("a chunk without its size")
            count = int(size[1], 16)
            if not count:
                break
            body += self._take(count, len(body))
            if self._take(2) != b"\r\n":
                raise Malformed("a chunk longer than its size")
        spent = 0
        while line := self._take_line(b"\r\n", MAX_HEAD):  # trailers are checked but not used
            _fields(line)
            spent += len(line)
            if spent > MAX_HEAD:
                raise Malformed(f"trailers of more than {MAX_HEAD} bytes")
        return bytes(body)

    def _take(self, count: int, before: int = 0) -> bytes:
        """Take the next bytes of a body, of which ``before`` bytes were taken."""
        if before + count > MAX_BODY:
            raise Malformed(f"a body of more than {MAX_BODY} bytes")
        while len(self._buffer) < count:
            self._receive()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _take_line(self, end: bytes, limit: int) -> bytes:
        seen = 0
        while (at := self._buffer.find(end, seen, limit)) < 0:
            if len(self._buffer) >= limit:
                raise Malformed(f"a line or head of more than {limit} bytes")
            seen = max(0, len(self._buffer) - len(end) + 1)
            self._receive()
        line = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return line

    def _receive(self) -> None:
        self._socket.settimeout(_left(self._deadline))
        data = self._socket.recv(_RECEIVE)
        if not data:
            raise ConnectionResetError("the connection was cut before the end of the answer")
        self._buffer += data


def clocks() -> tuple[float, ...]:
    """Return the readings of all available clocks. Any of them may stand still in a frozen environment."""
    return time.monotonic(), 0.0 if _BOOTTIME is None else time.clock_gettime(_BOOTTIME), time.time()


class Trust:
    """A ``context`` that verifies certificates. ``wider``: the next stage, which has more of them. None: it has all.

    Those to be trusted are in AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE, or the system's (SSL_CERT_FILE, SSL_CERT_DIR).

    Loading a system's 140 certificates takes 20 ms, more than everything else on the way to the first lock, and each of
    Amazon's five 0.4 ms. But one of these has signed DynamoDB's. So at first only that one is loaded from the system's
    file. If it is not enough, those with Amazon's names are, and at last (another endpoint, a proxy that intercepts
    TLS) all. Each time the connection is made again. This never trusts anything that the system does not trust: the
    names only select from its certificates.
    """

    __slots__ = ("context", "wider")

    def __init__(self, environ: Mapping[str, str], stage: int = 0) -> None:
        """stage: of `_FIRST`, or WHOLE. Raises LockConfigurationError if the bundle that the environment names cannot
        be read."""
        import ssl  # 3 ms, with the first TLS connection

        name = next((name for name in _BUNDLES if environ.get(name)), "")
        bundle = environ.get(name)
        roots = b""
        if stage < WHOLE and not bundle:
            try:
                with open(ssl.get_default_verify_paths().cafile or "", "rb") as file:
                    pem = file.read().replace(b"\r", b"").replace(b"\n", b"")
                while stage < WHOLE and not roots:
                    roots = _named(pem, _FIRST[stage])
                    if stage and roots == _named(pem, _FIRST[stage - 1]):
                        roots = b""  # nothing more
                    stage += 1
            except expected(OSError, ValueError):
                roots = b""  # OpenSSL may still be able to read the file
        self.wider = stage if roots else None
        try:
            self.context = ssl.create_default_context(cafile=bundle, cadata=roots or None)
        except expected(OSError) as error:
            raise LockConfigurationError(f"{name}={bundle!r} cannot be read as PEM certificates: {error}") from error


class Pool:
    """Connections to one endpoint, kept while idle. Any number of threads may use it, and none waits for another."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._trust: Trust | None = None
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._closed = False

    def exchange(self, request: bytes, deadline: float, answer_timeout: float) -> Answer:
        """Send over an idle connection, or over a new one. On an idle one, the answer may take ``answer_timeout``."""
        connection = self._take()
        if connection is None:
            connection = self._connect(deadline)
        else:
            deadline = min(deadline, time.monotonic() + answer_timeout)
        answer = connection.exchange(request, deadline)
        if connection.reusable:
            if self._closed or len(self._idle) >= MAX_IDLE or self._pid != os.getpid():
                connection.close()
            else:
                connection.idle_since = clocks()
                self._idle.append(connection)
        return answer

    def prepare(self) -> None:
        """Load the certificates for https that are needed first."""
        if self._endpoint.tls and self._trust is None:
            self._trust = Trust(os.environ)

    def close(self) -> None:
        """Close all idle connections. From now on, also close each connection after its answer."""
        self._closed = True
        self._drop_all()

    def _connect(self, deadline: float) -> Connection:
        self.prepare()
        trust = self._trust
        while trust is not None:
            try:
                return Connection(self._endpoint, trust.context, deadline)
            except LockConfigurationError:
                if trust.wider is None:
                    raise
            trust = self._trust = Trust(os.environ, trust.wider)
        return Connection(self._endpoint, None, deadline)

    def _take(self) -> Connection | None:
        if self._pid != os.getpid():
            self._drop_all()
            self._pid = os.getpid()
        while self._idle:
            try:
                connection = self._idle.pop()
            except expected(IndexError):  # another thread took it
                return None
            if max(map(sub, clocks(), connection.idle_since)) <= IDLE and connection.is_quiet():
                return connection
            connection.close()
        return None

    def _drop_all(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _named(pem: bytes, names: tuple[bytes, ...]) -> bytes:
    """Return the certificates of a PEM file, which has no line breaks, that have one of the names: decoded, one after
    another. Raises ValueError for what is not PEM.

    The names are looked for in Base64, because decoding the head of each certificate takes four times as long. A name
    has three forms there, because Base64 writes three bytes at a time.
    """
    found: dict[int, bytes] = {}  # by where they begin
    for name in names:
        for skip in range(3):  # without the first and last characters, which also depend on the bytes beside the name
            form = b2a_base64(bytes(skip) + name)[-(-skip * 4 // 3) : (skip + len(name)) * 4 // 3]
            end = 0
            while (at := pem.find(form, end)) >= 0:
                begin, end = pem.rindex(_BEGIN, 0, at) + len(_BEGIN), pem.index(b"-----END", at)
                certificate = a2b_base64(pem[begin:end])
                if name in certificate:
                    found[begin] = certificate
    return b"".join([found[begin] for begin in sorted(found)])


@lru_cache(maxsize=8)  # nearly all answers begin with the same line
def _status(line: bytes) -> int:
    """Return the status of a status line: ``HTTP/1.1 200 OK``, whose reason may be missing."""
    version, code, rest = line[:9], line[9:12], line[12:]
    if version not in (b"HTTP/1.1 ", b"HTTP/1.0 ") or len(code) != 3 or not code.isdigit():
        raise Malformed(_NO_STATUS)
    if not b"200" <= code <= b"599" or (rest and (rest[:1] != b" " or rest.translate(None, _TEXT))):
        raise Malformed(_NO_STATUS)
    return int(code)


def _fields(block: bytes) -> dict[str, str]:
    """Return the fields of a head or trailer, without the line break at its end."""
    lines = block.decode("latin-1").split("\r\n")
    # Apart from the line breaks at which it was split, it must be text: no other CR or LF.
    is_valid = block.translate(None, _TEXT) == b"\r\n" * (len(lines) - 1)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            is_valid = False
        name = name.lower()
        value = value.strip(" \t")
        if name in headers:
            # Two Content-Lengths become "5, 5", which is not a valid length. So repeated framing headers are refused.
            value = f"{headers[name]}, {value}"
        headers[name] = value
    if not is_valid or "" in headers or "".join(headers).encode("latin-1").translate(None, _TOKEN):
        raise Malformed("a header that breaks HTTP's grammar")
    return headers


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def _why(error: Exception) -> str:
    return "timed out" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


def _dial(host: str, port: int, deadline: float) -> socket.socket:
    """Return a connected socket. Each address of the name is tried, with an equal share of the time left.

    getaddrinfo has no timeout. If there is a name to look up, a thread calls it.
    """
    found: list[Any] = []

    def look_up() -> None:
        try:
            # Passed as bytes: a str would load the IDNA tables.
            found.append(socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM))
        except expected(OSError) as error:
            found.append(error)

    if ":" in host or host.replace(".", "").isdigit():
        look_up()
    else:
        thread = threading.Thread(target=look_up, name="lambda_lock-getaddrinfo", daemon=True)
        try:
            thread.start()
        except expected(RuntimeError):  # no thread can be started: the interpreter ends, or a limit is reached
            look_up()
        else:
            thread.join(_left(deadline))
    if not found:
        raise TimeoutError("the deadline has passed")
    if isinstance(found[0], OSError):
        raise found[0]
    left = len(found[0])
    for family, kind, protocol, _, address in found[0]:
        try:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(_left(deadline) / left)
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except BaseException:
                sock.close()
                raise
            return sock
        except expected(OSError):
            left -= 1
            if not left:
                raise
    raise OSError(f"{host} has no address")
