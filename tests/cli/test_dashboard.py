"""`lambda-lock dashboard`: the server by itself, and its page in a real browser."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from lambda_lock import LockClient
from lambda_lock.cli import dashboard, show
from lambda_lock.cli.dashboard import Server, serving
from tests.support.browser import launched
from tests.support.waiting import DEADLINE, wait_until

from .conftest import FREE, check_ended, waiting
from .test_history import ManyRows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def server(table: str) -> Iterator[Server]:
    with LockClient() as client, serving(client, table, port=None, interval=0.1) as running:
        yield running


def ask(
    server: Server, path: str = "/", method: str = "GET", host: str | None = None
) -> tuple[http.client.HTTPResponse, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=DEADLINE)) as connection:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer, answer.read().decode()


def test_the_page_is_one_file_that_may_load_nothing_from_elsewhere_and_is_served_on_loopback_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    answer, page = ask(server)
    assert answer.status == 200
    assert "default-src 'none'" in (answer.headers["Content-Security-Policy"] or "")
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#|url)[^"'\s]*//""", page)


def test_each_state_of_a_row_can_be_chosen_on_the_page():
    page = (Path(dashboard.__file__).with_name("dashboard.html")).read_text()
    (states,) = re.findall(r"const STATES = (\[.*\]);", page)
    assert set(json.loads(states)) == {*show.STATES, "waiting"}


def test_a_page_from_elsewhere_with_a_name_for_127_0_0_1_reads_nothing(server):
    for path in ("/", "/locks"):
        answer, text = ask(server, path, host="attacker.example")
        assert answer.status == 403
        assert "locks-" not in text


SENSELESS = ("page=x", "seconds=x", "seconds=nan", "seconds=1e9", "seconds=-1")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *((method, "/locks", 501) for method in ("POST", "PUT", "DELETE")),
        *(("GET", f"/locks?{query}", 400) for query in SENSELESS),
    ],
)
def test_nothing_but_get_is_answered_and_a_question_that_makes_no_sense_is_refused(server, method, path, status):
    assert ask(server, path, method)[0].status == status


def test_an_address_that_cannot_be_split_is_refused_and_leaves_no_trace(server, capfd):
    place = f"127.0.0.1:{server.server_port}"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=DEADLINE) as connection:
        connection.sendall(f"GET http://[ HTTP/1.0\r\nHost: {place}\r\n\r\n".encode())
        assert connection.makefile("rb").readline().split()[1:2] == [b"400"]
    assert capfd.readouterr().err == ""


def test_an_error_is_shown_until_a_reading_succeeds(wire, table):
    with LockClient() as client, serving(client, table, port=None, interval=0.05) as running:
        wire.answer(400, "AccessDeniedException", "Scan")
        wait_until(lambda: json.loads(ask(running, "/locks")[1])["error"])
        wire.clear()
        wait_until(lambda: json.loads(ask(running, "/locks")[1])["error"] is None)


def test_the_name_of_a_table_cannot_end_the_script(rows):
    with LockClient() as client, serving(client, "</script><b>", port=None, interval=10) as running:
        assert "</script><b>" not in ask(running)[1]


def test_the_command_prints_the_address_and_ends_quietly(start):
    process = start("dashboard")
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "Traceback" not in said
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) != 0


def test_a_port_that_is_taken_and_a_table_that_is_not_there_are_errors_that_say_so(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        check_ended(run("dashboard", "--port", str(taken.getsockname()[1])), 69, "is taken")
    check_ended(run("dashboard", "--table", "no-such-table"), 78, "no-such-table")


def test_a_connection_that_a_browser_breaks_off_leaves_no_trace(server, capfd):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=DEADLINE)
    connection.request("GET", "/")
    connection.getresponse().read()
    assert connection.sock is not None  # the server waits for the next request on it
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()  # with a reset
    wait_until(lambda: not any("process_request_thread" in thread.name for thread in threading.enumerate()))
    assert capfd.readouterr().err == ""


def test_a_connection_that_is_idle_is_closed(server, monkeypatch):
    handler: Any = server.RequestHandlerClass
    assert 0 < handler.timeout <= 60
    monkeypatch.setattr(handler, "timeout", 0.2)
    for said in (b"", b"GET / HT", b"GET /locks HTTP/1.1\r\nHost: "):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=DEADLINE) as connection:
            connection.sendall(said)
            assert connection.recv(1) == b""


# In a browser


def shows(page: Page, selector: str, texts: list[str]) -> None:
    """Wait until these texts are shown."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(texts, timeout=DEADLINE * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as one:
        yield one


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page. At the end of the test it must have had no error, and asked nobody but its server."""
    opened: list[tuple[Page, str, list[str], list[str]]] = []

    def open_it(server: Server, width: int = 1280, dark: bool = False) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
        page.set_default_timeout(DEADLINE * 1000)
        errors: list[str] = []
        asked: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        opened.append((page, server.url, errors, asked))
        page.goto(server.url)
        page.wait_for_selector("#where:not(:empty)", state="attached")
        return page

    yield open_it
    for page, url, errors, asked in opened:
        page.close()
        assert errors == []
        assert [one for one in asked if not one.startswith((url, "data:"))] == []


@pytest.mark.long
def test_a_browser_shows_who_holds_and_filters_by_prefix_and_state(server, rows, open_page):
    rows.put_lock("order#1", owner="worker-7", **waiting(1))
    rows.put_lock("order#2", expires_in=-30)
    rows.put("<b>import</b>", **FREE)
    page = open_page(server)
    page.wait_for_selector("text=order#2")
    page.wait_for_selector("text='<b>import</b>'")
    assert page.locator("#locks tr", has_text="order#1").locator(".waits").inner_text() == "1"
    assert "worker-7#cccccc" in page.locator("#locks tr", has_text="order#1").inner_text()
    page.fill("#prefix", "order#")
    shows(page, "#locks .name", ["order#1", "order#2"])
    page.click("button[data-state=expired]")
    shows(page, "#locks .name", ["order#2"])
    assert page.locator("#locks .late").count() == 1


@pytest.mark.long
def test_a_browser_shows_what_would_reorder_its_line_as_text_and_keeps_each_script_to_itself(server, rows, open_page):
    key, owner = "order\u202e#1\u2066", "worker\u202d"
    rows.put_lock(key, owner=owner)
    rows.put_lock("הזמנה", owner="עובד")
    page = open_page(server)
    shows(page, "#locks .name bdi", [r"order\u202e#1\u2066", "הזמנה"])
    shows(page, "#locks .who bdi", [r"worker\u202d#cccccc", "עובד#cccccc"])
    with LockClient() as client, client.acquire("הזמנה#2"):
        page.wait_for_selector("#events bdi:has-text('הזמנה#2')", state="attached")
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.content())


@pytest.mark.long
def test_a_browser_draws_a_take_over_and_a_permit_beside_another(server, rows, open_page):
    rows.put_lock("a", owner="dead", expires_in=-5)
    page = open_page(server)
    page.wait_for_selector("#locks .late")
    with LockClient(owner_prefix="next") as client:
        taken = client.acquire("a", wait=10)
        page.wait_for_selector("#locks .took", state="attached")
        page.wait_for_selector("#events >> text=taken over by next#")
        first, second = (client.acquire("api", permits=2) for _ in range(2))
        drawn = page.locator("#locks tr", has_text="api").locator(".hold")
        drawn.nth(1).wait_for(state="attached")
        assert len({one.get_attribute("y") for one in drawn.all()}) == 2
        for lock in (taken, first, second):
            lock.release()


@pytest.mark.long
def test_a_browser_draws_a_lease_of_any_length_and_damaged_rows_beside_it(server, rows, open_page):
    rows.put_lock("longest", lease=2**63 - 1)
    rows.put("api", **{name: {"S": "semaphore"} for name in ("ownerName", "leaseDuration", "recordVersionNumber")})
    rows.put("java", ownerName={"S": "java"}, leaseDuration={"S": str(2**63 - 1)}, recordVersionNumber={"S": "a-b-c"})
    page = open_page(server)
    shows(page, "#locks .name", ["api", "java", "longest"])
    page.locator("#locks tr", has_text="longest").locator(".hold").wait_for(state="attached")
    shows(page, "#error", [""])


@pytest.mark.long
def test_a_browser_shows_a_rate_limit_its_next_start_and_how_many_wait(server, rows, open_page):
    for name, ahead in (("api", 3 * 3600), ("quiet", -60)):
        next_at = {"N": str(int((time.time() + ahead) * 1e6))}
        rows.put(name, recordVersionNumber={"S": "rate"}, rate={"S": "1/3600/1"}, nextAt=next_at)
    rows.put_lock("order#1")
    page = open_page(server)
    api, quiet = (page.locator("#locks tr", has_text=name) for name in ("api", "quiet"))
    api.locator(".queue").wait_for(state="attached")
    assert api.locator(".who").inner_text() == "1 per 1 h, burst 1"
    assert api.locator(".rate").inner_text() == "rate, next in 3 h"
    assert re.fullmatch(r"next start \S+T\S+Z", api.locator(".rate").get_attribute("title") or "")
    assert int(api.locator(".waits").inner_text()) in (2, 3)
    assert (quiet.locator(".rate").inner_text(), quiet.locator(".waits").inner_text()) == ("rate, next now", "")
    page.click("button[data-state=waiting]")
    shows(page, "#locks .name", ["api"])


@pytest.mark.long
def test_a_browser_pages_through_thousands_of_locks(open_page):
    client = LockClient("locks", transport=ManyRows(10_000))  # test_history.py has 100,000, without a browser
    with serving(client, "locks", port=None, interval=3600) as running:
        page = open_page(running)
        shows(page, "#where", ["1 to 50 of 10,000"])
        assert page.locator("#locks .name").count() == 50
        page.click("#next")
        shows(page, "#where", ["51 to 100 of 10,000"])
        page.click("button[data-state=held]")
        shows(page, "#where", ["1 to 10 of 10"])
        page.fill("#prefix", "lock-0090")
        shows(page, "#locks .name", ["lock-009007"])


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_browser_needs_no_scrolling_sideways_and_follows_the_colour_scheme(server, rows, open_page, dark):
    for number in range(5):
        rows.put_lock(
            f"a-rather-long-key-{'x' * 40}-{number}", owner="some-function/c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
        )
    page = open_page(server, width=360, dark=dark)
    page.wait_for_selector("#locks .hold")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    (red, *_) = map(int, re.findall(r"\d+", colour))
    assert (red < 128) is dark


@pytest.mark.long
def test_a_browser_is_told_when_the_command_has_ended(start, rows, browser):
    rows.put_lock("a")
    process = start("dashboard")
    page = browser.new_page()
    page.goto(process.stdout.readline().strip())
    shows(page, "#locks .name", ["a"])
    process.terminate()
    page.wait_for_selector("#error:has-text('does not answer')", timeout=DEADLINE * 1000)
    page.close()
