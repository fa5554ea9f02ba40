"""Leader election: one of several processes leads, and the others wait. When the leader dies, another takes its place.

    python examples/leader_election.py candidate NAME    # start several, then stop one with Ctrl-C, or kill it
    python examples/leader_election.py measure           # starts three, and kills the leader several times

Both need LAMBDA_LOCK_TABLE and AWS's usual variables. The leaders work in a table of their own, whose name ends in
``-journal``: it is created if it does not exist.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import boto3
from botocore.exceptions import ClientError

from lambda_lock import Lock, LockClient, LockConfigurationError, LockLostError
from lambda_lock.table import create_table, table_exists

KEY = "leader"
JOURNAL = {"key": {"S": "journal"}}
STEP = 0.1  # seconds of work between two checks of the lock


class Deposed(Exception):
    """Another candidate has led under a newer fencing token, so our late write was refused."""


class Candidate:
    """Leads whenever it can. ``work`` is one step. It must be short, because the lock is checked between steps."""

    def __init__(self, name: str, lease: float, work: Callable[[Lock], None], say: Callable[[str], None]) -> None:
        self._client = LockClient(lease_duration=lease, owner_prefix=name, refresh_period=0.5)
        self._work = work
        self._say = say
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Step down after the current step, and let the next candidate lead at once."""
        self._stopping.set()

    def run(self) -> None:
        with self._client:
            while not self._stopping.is_set():
                self._say("follows")
                # Wait without a limit, until the lock is free or the holder's lease is over by DynamoDB's clock.
                lock = self._client.try_acquire(KEY, wait=math.inf, cancel_check=self._stopping.is_set)
                if lock is None:
                    return
                with lock:  # released at the end of the block, even after an error
                    self._lead(lock)

    def _lead(self, lock: Lock) -> None:
        self._say(f"leads {lock.fencing_token}")
        try:
            while not self._stopping.is_set():
                lock.raise_if_lost()  # before every step, because the process may have been frozen since the last one
                self._work(lock)
                lock.wait_lost(timeout=STEP)  # a pause that ends at once if the lock is lost
        except (LockLostError, Deposed) as error:
            self._say(f"deposed {type(error).__name__}")


def write_journal(dynamodb: Any, table: str, name: str, lock: Lock) -> None:
    """One step of work: add an entry with the fencing token. The journal refuses a token older than its newest."""
    entry = {"M": {"name": {"S": name}, "token": {"N": str(lock.fencing_token)}}}
    try:
        dynamodb.update_item(
            TableName=table,
            Key=JOURNAL,
            UpdateExpression="SET newest = :token, entries = list_append(if_not_exists(entries, :none), :entry)",
            ConditionExpression="attribute_not_exists(newest) OR newest <= :token",
            ExpressionAttributeValues={
                ":token": entry["M"]["token"],
                ":none": {"L": []},
                ":entry": {"L": [entry]},
            },
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        raise Deposed(f"{name} led under {lock.fencing_token}") from error


def read_journal(dynamodb: Any, table: str) -> list[tuple[int, str]]:
    """The entries in the order of their writes: token and name."""
    item = dynamodb.get_item(TableName=table, Key=JOURNAL, ConsistentRead=True).get("Item", {})
    entries = item.get("entries", {"L": []})["L"]
    return [(int(entry["M"]["token"]["N"]), entry["M"]["name"]["S"]) for entry in entries]


def check_journal(entries: Sequence[tuple[int, str]]) -> int:
    """The number of terms. Raises ValueError if two led at once: one token with two names, or tokens out of order."""
    if any(later[0] < earlier[0] for earlier, later in itertools.pairwise(entries)):
        raise ValueError(f"a former leader wrote after its successor: {entries}")
    if len(set(entries)) != len({token for token, _ in entries}):
        raise ValueError(f"two candidates led under one token: {entries}")
    return len(set(entries))


def journal_table() -> str:
    """The table of what the leaders do, beside that of the locks. It is created if it does not exist."""
    name = f"{os.environ['LAMBDA_LOCK_TABLE']}-journal"
    if not table_exists(name):
        with contextlib.suppress(LockConfigurationError):  # another candidate creates it at this moment
            create_table(name, ttl=None)
    return name


def _dynamodb() -> Any:
    return boto3.client("dynamodb", region_name=os.environ.get("AWS_REGION"))  # boto3 itself does not read AWS_REGION


def run_candidate(name: str, lease: float) -> None:
    dynamodb, table = _dynamodb(), journal_table()

    def say(what: str) -> None:
        print(name, what, flush=True)

    candidate = Candidate(name, lease, lambda lock: write_journal(dynamodb, table, name, lock), say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: candidate.stop())
    candidate.run()


class Candidates:
    """Candidates in processes of their own, and what they print, in the order in which it arrives."""

    def __init__(self, count: int, lease: float) -> None:
        self._said: queue.Queue[list[str]] = queue.Queue()
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._listeners: list[threading.Thread] = []
        for number in range(count):
            self.start(f"candidate-{number + 1}", lease)

    def start(self, name: str, lease: float) -> None:
        command = [sys.executable, __file__, "candidate", name, "--lease", str(lease)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes[name] = process
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        self._listeners.append(listener)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._said.put(line.split())

    def wait_for(self, what: str, by: str | None = None, seconds: float = 60.0) -> tuple[str, list[str]]:
        """Wait until a candidate, or ``by``, prints ``what``. Returns its name and the rest of what it printed."""
        end = time.monotonic() + seconds
        while True:
            name, said, *rest = self._said.get(timeout=max(0.0, end - time.monotonic()))
            if said == what and by in (None, name):
                return name, rest

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for listener in self._listeners:
            listener.join()

    def __enter__(self) -> Candidates:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def measure(count: int, lease: float, rounds: int) -> list[float]:
    """Kill the leader ``rounds`` times. Returns the seconds from each SIGKILL until the next leader reports."""
    dynamodb, table = _dynamodb(), journal_table()
    seconds = []
    with Candidates(count, lease) as candidates:
        name, _ = candidates.wait_for("leads")
        for turn in range(rounds):
            _wait_for_entry(dynamodb, table, name)
            candidates.processes[name].kill()  # SIGKILL, so it cannot release the lock
            killed, dead = time.monotonic(), name
            name, (token,) = candidates.wait_for("leads")
            seconds.append(time.monotonic() - killed)
            print(f"{dead} was killed; {name} leads under token {token} after {seconds[-1]:.1f} s", flush=True)
            candidates.processes[dead].wait()
            candidates.start(f"candidate-{count + turn + 1}", lease)
        _wait_for_entry(dynamodb, table, name)
    terms = check_journal(read_journal(dynamodb, table))
    print(
        f"lease {lease:g} s: failover in {min(seconds):.1f} to {max(seconds):.1f} s; {terms} terms, never two leaders"
    )
    return seconds


def _wait_for_entry(dynamodb: Any, table: str, name: str) -> None:
    """Wait until the leader has done some of its work."""
    while name not in {who for _, who in read_journal(dynamodb, table)}:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["candidate", "measure"])
    parser.add_argument("name", nargs="?", default=f"candidate-{os.getpid()}")
    parser.add_argument("--lease", type=float, default=5.0, help="seconds, 1 or more (default: 5)")
    parser.add_argument("--candidates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if options.what == "candidate":
            run_candidate(options.name, options.lease)
        else:
            measure(options.candidates, options.lease, options.rounds)


if __name__ == "__main__":
    main()
