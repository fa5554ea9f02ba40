"""The search of the built site leads to the right page. `make docs` builds it, and runs this.

The site's own scripts search its own index, in Node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rig.engine import ROOT

_SITE = Path(os.environ.get("LAMBDA_LOCK_SITE", ""))
_FIRST = 3  # so many results are read

pytestmark = [
    pytest.mark.skipif("LAMBDA_LOCK_SITE" not in os.environ, reason="make docs builds the site and runs this"),
    pytest.mark.skipif(shutil.which("node") is None, reason="the site's search runs in Node"),
]

WANTED = {
    "skip a run": "recipes/cron",
    "cron": "recipes/cron",
    "once an hour": "recipes/once-an-hour",
    "rate limit": "semaphores",
    "at most 5": "semaphores",
    "throttle": "semaphores",
    "semaphore": "semaphores",
    "throttling": "semaphores",
    "distributed lock": "locks-around-functions",
    "lock stuck": "troubleshooting",
    "how to test": "testing",
    "fargate": "workers",
    "cron jobs": "recipes/cron",
    "409": "locks-around-functions",
    "mutex": "locks-around-functions",
    "readers": "locks-around-functions",
    "with_lock": "locks-around-functions",
    "debounce": "recipes/debounce",
    "fastapi": "recipes/fastapi",
    "flask": "recipes/fastapi",
    "django": "recipes/django",
    "webhook": "recipes/webhook",
    "stripe": "recipes/webhook",
    "s3": "recipes/s3",
    "kinesis": "recipes/streams",
    "transfer money": "recipes/transfer",
    "step functions": "step-functions",
    "waiting asleep": "waiting-asleep",
    "waker": "waiting-asleep",
    "sleep": "waiting-asleep",
    "wake": "waiting-asleep",
    "waitForTaskToken": "waiting-asleep",
    "task token": "waiting-asleep",
    "resume a workflow": "holds",
    "workflow": "holds",
    "shared result": "compute-once",
    "token bucket": "rate-limits",
    "provisioned concurrency": "recipes/provisioned",
    "exactly once": "deduplicate",
    "idempotency": "deduplicate",
    "SQS": "batches",
    "visibility timeout": "batches",
    "cache stampede": "compute-once",
    "token refresh": "compute-once",
    "leader": "leader-election",
    "ECS": "workers",
    "SIGTERM": "workers",
    "fencing token": "transactions",
    "deadlock": "several-keys",
    "unit test": "testing",
    "permissions": "deploy",
    "terraform": "deploy-templates",
    "kafka": "batches",
    "web framework": "web",
    "snapstart": "recipes/provisioned",
    "costs": "costs",
    "log events": "troubleshooting",
    "environment variables": "settings",
    "LockNotGrantedError": "troubleshooting",
    "LockTimeoutError": "troubleshooting",
    "AccessDeniedException": "troubleshooting",
    "ResourceNotFoundException": "troubleshooting",
    "ThrottlingException": "outages",
    "lock expired": "troubleshooting",
    "race condition": "locks-around-functions",
    "429": "locks-around-functions",
    "503": "locks-around-functions",
    "ALB": "web",
    "clock skew": "safety-assumptions",
    "global table": "safety-assumptions",
    "lambda timeout": "settings",
    "type hints": "stability",
    "double charge": "compute-once",
    "see who holds a lock": "command-line",
    "local development": "getting-started",
    "duplicate message": "deduplicate",
    "starvation": "waiting",
    "batch item failures": "batches",
}


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """The pages that are found, in order, by what was searched."""
    command = ["node", str(ROOT / "tests" / "docs" / "search.js"), str(_SITE)]
    queries = [*WANTED, *_words()]
    asked = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True, timeout=60)
    results = json.loads(asked.stdout)
    return {query: [page for page, *_ in results[query]] for query in queries}


def _words() -> dict[str, set[str]]:
    """The words that pages say they are found by, in the comments that docs/conf.py reads."""
    words: dict[str, set[str]] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        for line in re.findall(r"^<!-- search: (.*) -->$", page.read_text(), re.MULTILINE):
            for word in line.split(", "):
                words.setdefault(word, set()).add(page.relative_to(ROOT / "docs").with_suffix("").as_posix())
    return words


@pytest.mark.parametrize(("query", "page"), WANTED.items())
def test_what_people_search_for_is_among_the_first_results(query: str, page: str, found: dict[str, list[str]]) -> None:
    assert page in found[query][:_FIRST]


def test_each_page_is_among_the_first_results_for_the_words_that_it_names(found: dict[str, list[str]]) -> None:
    words = _words()
    assert len(words) > 100
    assert {word: pages for word, pages in words.items() if not pages <= set(found[word][:_FIRST])} == {}
