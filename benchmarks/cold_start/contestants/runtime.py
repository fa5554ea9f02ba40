"""Python with the standard modules that awslambdaric 4 loads first: the cost that every function has."""

import contextlib  # noqa: F401
import decimal  # noqa: F401
import json  # noqa: F401
import logging  # noqa: F401
import threading  # noqa: F401
import traceback  # noqa: F401

from benchmarks.cold_start.contestants.harness import held

held()
