"""Wakes suspended executions that sleep until a lock is free. Nothing else of the package loads it.

`handler` is the Lambda function: LockTable(wake=...) deploys it. look.py has the rules.
"""

from __future__ import annotations

from .function import handler

__all__ = ["handler"]
