"""`make audit` against advisory services on this machine: ones that know, that know nothing, and that are not there."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig import audit
from rig.audit import Audit, NotAudited
from rig.engine import ROOT
from rig.loopback import Handler, LoopbackServer

ADVISORY = {"id": "PYSEC-0-1", "affected": [], "summary": "a hole", "aliases": []}


class Asked(Handler):
    """Answers with what its service knows."""

    server: Service

    def do_POST(self) -> None:
        body = self.body()
        asked = json.loads(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        said = self.server.know(asked)
        if isinstance(said, int):
            self.reply(said)
        else:
            self.reply(200, json.dumps(said).encode(), [("Content-Type", "application/json")])


class Service(LoopbackServer):
    """``know`` gets a request's JSON, and returns the answer's JSON or a status."""

    know: Callable[[Any], Any] = staticmethod(lambda asked: {})


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(Asked) as one:
        yield one


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    path = tmp_path / "some.txt"
    path.write_text(f"click==8.1.0 \\\n    --hash=sha256:{'0' * 64}\nrich==13.0 --hash=sha256:{'1' * 64}\n")
    return path


def of_python(url: str, pins: Path) -> Audit:
    return audit.python([pins], "--vulnerability-service", "osv", "--osv-url", f"{url}/v1/query")


def knowing(*names: str) -> Callable[[Any], Any]:
    def know(asked: Any) -> Any:
        about = {"package": asked["package"], "versions": [asked["version"]], "ranges": []}
        return {"vulns": [ADVISORY | {"affected": [about]}]} if asked["package"]["name"] in names else {}

    return know


def test_a_pin_with_a_known_vulnerability_is_found(service, pins):
    service.know = knowing("urllib3", "rich")
    found = of_python(service.url, pins)
    assert found.asked == 2
    (line,) = found.found
    assert line.startswith("some.txt: rich 13.0 has PYSEC-0-1")


def test_a_service_that_knows_nothing_at_all_is_not_believed(service, pins):
    with pytest.raises(NotAudited, match=r"no vulnerability of urllib3 1\.24"):
        of_python(service.url, pins)


@pytest.mark.long
def test_pins_without_a_vulnerability_pass_and_a_service_that_fails_or_is_not_there_is_told(service, pins):
    service.know = knowing("urllib3")
    assert of_python(service.url, pins) == Audit(asked=2)
    service.know = lambda asked: 405
    for url in (service.url, "http://127.0.0.1:1"):
        with pytest.raises(NotAudited):
            of_python(url, pins)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npms_pins_are_asked_about_in_the_same_way(service):
    def of_npm(*vulnerable: str) -> Audit:
        hole = {"id": 1, "url": "https://example.com/GHSA-1", "title": "a hole"}
        hole |= {"severity": "high", "vulnerable_versions": "*"}
        service.know = lambda asked: {name: [hole] for name in asked if name in vulnerable} if vulnerable else 405
        return audit.npm(ROOT, "--registry", service.url, "--fetch-retries", "0")

    hole = "package-lock.json: aws-cdk has https://example.com/GHSA-1 (a hole)"
    assert of_npm("lodash", "aws-cdk") == Audit(1, [hole])
    for known in (["aws-cdk"], []):  # the first is not believed, and the second is an error
        with pytest.raises(NotAudited):
            of_npm(*known)


def fails(*_: object) -> Audit:
    raise NotAudited("HTTP 405")


@pytest.mark.parametrize(
    ("found", "code", "required"),
    [(Audit(3), 0, 0), (Audit(3, ["some.txt: a 1 has X"]), 1, 1), (Audit(3, [], ["some.txt: b"]), 0, 1), (None, 0, 1)],
)
def test_what_was_found_and_what_was_not_asked_is_said(found, code, required, monkeypatch, capsys):
    for name in ("python", "npm"):
        monkeypatch.setattr(audit, name, fails if found is None else lambda *_: found)
    assert (audit.main([]), audit.main(["--required"])) == (code, required)
    said = capsys.readouterr().out
    assert ("NOT AUDITED" in said) is (found is None)
    assert all(line in said for line in ((*found.found, *found.left_out) if found else ("HTTP 405",)))
