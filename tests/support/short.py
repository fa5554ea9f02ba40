"""How much the slow tests play: all, or what CI has time for."""

import os

ALL = 150_000
SCHEDULES = int(os.environ.get("LAMBDA_LOCK_SCHEDULES") or ALL)  # that `make test-slow` simulates
SHORT = SCHEDULES < ALL  # then its other proofs are short, too
