"""What a process believes it holds."""

from typing import Any

from lambda_lock.core.protocol import AcquireRequest, Hold
from lambda_lock.core.schema import JAVA

from .items import attempt_of, is_held_by
from .world import Process


class OurHolding:
    def __init__(self, process: Process, hold: Hold, wanted: AcquireRequest) -> None:
        self.process = process
        self.key = wanted.place.key
        self.hold = hold
        self.wanted = wanted
        self.suspects: list[tuple[str, str]] = []  # what is a failure if its frozen process still holds when it thaws
        self.renewing = False
        self.plan = 0  # the number of the newest heartbeat plan
        self.since = process.world.now
        self.harmless = False  # True if no fault hit its acquisition
        self.failed = False  # the event's handler failed
        self.committing = False  # its last act is a commit
        self.dropped = False  # nobody has the handle any more
        self.interrupted = 0  # how often something was thrown into its last act
        self.freed = False  # a release or commit of this handle was carried out
        self.completed = False  # ... and it completed the event
        self.result: str | None = None  # that it stores then

    @property
    def over(self) -> bool:
        """Whether the lock is lost or ended for good."""
        return self.process.dead or self.hold.lost or self.hold.ended or self.dropped

    def is_held(self, elapsed: float) -> bool:
        return self.hold.is_held(elapsed)

    def owns(self, item: Any) -> bool:
        """Whether a row belongs to this holding and is held."""
        return is_held_by(item, self.hold.owner, self.hold.token, self.hold.place.permits)

    def has_an_entry(self, item: Any) -> bool:
        """Whether a row shows a claim of this holding's acquisition, under any token.

        An adopter does not know the claims of the first handle: a copy of one is left to its lease (rule 9).
        """
        if item is None or JAVA.released in item:
            return False
        if self.hold.place.permits is not None:
            return attempt_of(self.hold.owner) in item.get("permits", {}).get("M", {})
        return item.get(JAVA.version, {}).get("S") in self.hold.claims

    def __repr__(self) -> str:
        return f"{self.hold.owner} (token {self.hold.token})"
