"""A Lambda function that never ends, with the library that BENCHMARK_CONTESTANT names."""

from __future__ import annotations

import os
import time
from typing import Any

from .contestants import CONTESTANTS, Event

contestant = CONTESTANTS[os.environ["BENCHMARK_CONTESTANT"]](os.environ["AWS_ENDPOINT_URL"])


def hang(event: Event) -> Any:
    time.sleep(600)


handler = contestant.once(hang)
