"""A version of the library that knows no weights, beside those that do."""

from __future__ import annotations

from typing import Any

from lambda_lock.core.permits import PermitPlace
from lambda_lock.core.row import SEAL
from lambda_lock.errors import LockFormatError

from .items import is_weighed


class OldPlace(PermitPlace):
    """A permit's place as that version has it: each request is one for a row that does not count weights."""

    __slots__ = ()
    format = property(lambda self: SEAL, lambda self, value: None)

    def row(self, item: Any) -> Any:
        if is_weighed(item):
            raise LockFormatError(f"{self.key!r} is a lock, not a semaphore", key=self.key)
        return super().row(item)
