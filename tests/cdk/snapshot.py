"""The template that most users deploy. `python -m tests.cdk.snapshot` writes it again."""

import json
from pathlib import Path

import aws_cdk as cdk

from lambda_lock.cdk import LockTable
from tests.cdk.apps import new_function, new_stack, synthesized

SNAPSHOT = Path(__file__).with_name("template.json")


def everyday_stack() -> cdk.Stack:
    stack = new_stack()
    LockTable(stack, "Locks").connect(new_function(stack))
    LockTable(stack, "Sorted", sort_key_name="part").connect(new_function(stack, "Other"), key_prefixes=["invoice#"])
    return stack


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(synthesized(everyday_stack()), indent=1) + "\n")
