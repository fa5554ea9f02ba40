"""Engines that can be stopped in the middle of work and continue with what they had stored."""

import os
import signal
import subprocess
import time
from pathlib import Path

from rig.engine import DynamoDBLocal, Engine, EngineError, Ministack, stop

_IN_MEMORY = "/dev/shm"  # noqa: S108 - only mkdtemp writes there


class Lasting(Engine):
    """An engine that keeps its state over restarts, on one port."""

    END_SECONDS = 120.0  # on a busy machine
    stopped_by = signal.SIGTERM

    def restart(self) -> None:
        """Stop the process, and start another one with the same state. Connections are cut.

        What the engine answered before this call is kept. What it answers during the call may be lost.

        Raises EngineError if it does not answer or does not end, or if the other one does not become ready.
        """
        assert self._process is not None
        self._mark()
        self._process.send_signal(self.stopped_by)
        try:
            self._process.wait(self.END_SECONDS)
        except subprocess.TimeoutExpired as error:  # killed now, it would lose what it stored, and tokens would repeat
            raise EngineError(f"the engine on port {self.port} did not end within {self.END_SECONDS:.0f} s") from error
        for _ in range(self.ATTEMPTS):
            self._process = self._spawn(self._command())
            if self._becomes_ready():
                self._mark()
                return
            stop(self._process)
        raise EngineError(f"the engine did not come back on port {self.port}; it wrote:\n{self._log()}")

    def _mark(self) -> None:
        """Make sure that a kill loses nothing that was answered before. Raises EngineError."""


class LastingMinistack(Lasting, Ministack):
    """ministack writes its state only when it is asked to end, so it gets SIGTERM and is never killed."""

    def _settings(self, folder: Path) -> dict[str, str]:
        return super()._settings(folder) | {"PERSIST_STATE": "1"}


class LastingDynamoDBLocal(Lasting, DynamoDBLocal):
    """DynamoDB Local with its data in a file (SQLite), so that it can be killed at any instant.

    SQLite waits for the disk at each write, one after the other: 30 writes a second, where there are 500 in a file
    system in memory. A kill of the process loses as little there. Only a machine that stops would lose it.

    It answers a transaction before it has stored it: of 200 kills beside three writers, 9 lost a transaction that had
    been answered up to 0.4 ms before. No single write was lost. SQLite stores one write after the other, so an answered
    write shows that all transactions answered before are stored.
    """

    _MARKS = "marks"
    stopped_by = signal.SIGKILL
    FOLDERS = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None

    def _start(self) -> None:
        super()._start()
        self.create_table(self._MARKS)

    def _mark(self) -> None:
        end = time.monotonic() + self.END_SECONDS
        while True:  # it answers for a moment before it has read its file again, and does not know its tables
            try:
                self.dynamodb("PutItem", {"TableName": self._MARKS, "Item": {"key": {"S": "mark"}}})
                return
            except EngineError as error:
                if error.code != "ResourceNotFoundException" or time.monotonic() > end:
                    raise
            time.sleep(0.02)

    def _command(self) -> list[str]:
        assert self._folder is not None
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        return [*super()._command(), str(data)]


ENGINES: dict[str, type[Lasting]] = {"ministack": LastingMinistack, "dynamodb-local": LastingDynamoDBLocal}
