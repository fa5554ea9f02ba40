"""gevent and eventlet: the real packages, in processes of their own."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rig.engine import ROOT
from tests.support.installed import finish

PROGRAM = Path(__file__).with_name("locking.py")
# `make test-pythons` has them: requirements/pythons.txt.
pytestmark = pytest.mark.skipif(
    not (find_spec("gevent") and find_spec("eventlet")), reason="gevent and eventlet are not installed"
)


def said(when: str, patching: str) -> str:
    """What a process that patches so printed."""
    command = [sys.executable, "-W", "ignore", PROGRAM, when, patching]
    return finish(command, os.environ | {"PYTHONPATH": str(ROOT)}).strip()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "patching",
    [
        "gevent.monkey:patch_all:",
        "gevent.monkey:patch_all:thread",  # the heartbeat ran, and the release failed: greenlet.error
        "gevent.monkey:patch_thread:",
        "eventlet:monkey_patch:",
        "eventlet:monkey_patch:socket",
    ],
)
def test_a_lock_is_refused_where_threads_or_sockets_were_replaced(when, patching, wire):
    library = patching.partition(":")[0].partition(".")[0]
    error = said(when, patching)
    assert error.startswith(f"{library} has replaced this process's threads or sockets")
    assert "gthread" in error
    assert wire.operations == []


@pytest.mark.parametrize("patching", ["gevent.monkey::", "eventlet::"])
def test_a_lock_is_kept_where_they_are_only_imported(patching, table):
    assert said("before", patching) == "renewed"
