"""A Lambda function that never ends. BENCHMARK_CONTESTANT names the library that it uses."""

from __future__ import annotations

import os
import time
from typing import Any

from .contestants import CONTESTANTS, Event

contestant = CONTESTANTS[os.environ["BENCHMARK_CONTESTANT"]](os.environ["AWS_ENDPOINT_URL"])


def hang(event: Event) -> Any:
    time.sleep(600)


handler = contestant.once(hang)
