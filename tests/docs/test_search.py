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

#: The pages and sections, and what people type to find them.
ANSWERS = {
    "recipes/cron": "skip a run, cron, cron jobs",
    "recipes/once-an-hour": "once an hour",
    "rate-limits": "rate, rate limiter, requests per second, too many requests, 429, token bucket, throttled",
    "semaphores": "rate limit, throttle, throttling, at most 5, semaphore, concurrency limit, max concurrency",
    "semaphores#seeing-who-holds": "who holds a permit",
    "locks-around-functions": "distributed lock, mutex, singleton, with_lock, race condition",
    "shared-locks": "readers, read-write lock, shared lock, rwlock, migration",
    "semaphores#several-permits-at-once-weights": "weights",
    "recipes/maintenance": "drain, maintenance mode",
    "recipes/tenants": "tenant limit",
    "locks-around-functions#inside-the-function": "reentrant",
    "locks-around-functions#answer-409-while-busy": "409, 503, retry-after header",
    "troubleshooting": "lock stuck, lock expired",
    "command-line#release-by-force": "stuck lock, unlock, force release, release all, delete lock",
    "command-line#see-who-holds-what": "who holds, see who holds a lock, list locks",
    "command-line#pause-a-job-for-maintenance": "pause, maintenance",
    "command-line#over-time-in-a-browser": "dashboard",
    "command-line#run-a-command-under-a-lock": "flock",
    "command-line#a-local-engine": "local",
    "getting-started": "local development",
    "testing": "how to test, unit test, mock",
    "testing#with-moto": "moto",
    "testing#time": "freezegun, time travel",
    "workers": "fargate, ECS, SIGTERM",
    "recipes/debounce": "debounce",
    "recipes/fastapi": "fastapi, flask",
    "recipes/django": "django",
    "recipes/webhook": "webhook, stripe",
    "recipes/s3": "s3",
    "recipes/streams": "kinesis",
    "recipes/transfer": "transfer money",
    "step-functions": "step functions",
    "waiting-asleep": "waiting asleep, waker, sleep, wake, waitForTaskToken, task token",
    "holds": "resume a workflow, workflow",
    "compute-once": "shared result, cache stampede, token refresh",
    "idempotent-apis": "double charge, idempotency key, 422",
    "compute-once#forget": "forget, invalidate cache",
    "compute-once#tenants": "multi tenant",
    "recipes/provisioned": "provisioned concurrency, snapstart",
    "cold-start": "cold start",
    "deduplicate": "exactly once, idempotency, duplicate, dedupe, duplicate message",
    "batches": "SQS, visibility timeout, batch item failures, fifo queue, pipes",
    "batches#kafka": "kafka",
    "leader-election": "leader",
    "transactions": "fencing token",
    "several-keys": "deadlock",
    "deploy": "permissions, iam",
    "troubleshooting#lockconfigurationerror": (
        "permission denied, access denied, AccessDeniedException, ResourceNotFoundException, "
        "unable to locate credentials"
    ),
    "deploy#permissions": "encryption, kms",
    "deploy-cdk#vpc-endpoints": "vpc",
    "deploy-cdk#other-accounts": "cross account",
    "deploy-templates": "terraform",
    "asyncio": "async, asyncio",
    "stability#what-is-supported": "mypy, type hints",
    "stability": "upgrade",
    "web": "web framework, ALB",
    "costs": "cost, costs, price",
    "costs#a-hot-key": "hot partition",
    "table#what-it-stores-and-for-how-long": "gdpr, personal data, delete",
    "troubleshooting#log-events": "log events",
    "settings#environment-variables": "environment variables, disable locks",
    "settings": "lambda timeout",
    "waiting#the-defaults-of-wait": "timeout",
    "troubleshooting#locknotgrantederror": "LockNotGrantedError",
    "troubleshooting#locktimeouterror": "LockTimeoutError",
    "troubleshooting#locklosterror": "lock lost",
    "outages": "ThrottlingException",
    "safety-assumptions": "clock skew, global table",
    "waiting": "starvation",
    "troubleshooting#functions-are-skipped-for-hours": "functions skipped for hours",
    "troubleshooting#the-table-is-throttled": "table throttled at night",
    "troubleshooting#the-table-or-its-key-was-deleted": "table deleted, kms key deleted",
    "troubleshooting#the-region-is-wrong": "wrong region",
    "troubleshooting#a-role-has-no-permission": "role without permission",
    "troubleshooting#a-clock-is-wrong": "wrong clock",
    "troubleshooting#the-waker-is-dead": "waker dead",
    "troubleshooting#the-row-of-a-rate-limit-is-damaged": "rate row damaged",
    "troubleshooting#a-semaphore-is-full-of-dead-executions": "semaphore full, semaphore full of dead executions",
    "troubleshooting#an-event-is-done-but-without-effect": "done but without effect",
    "troubleshooting#duplicates-get-a-result-of-an-old-version": "result of an old version",
    "troubleshooting#permits-were-changed": "permits changed",
    "troubleshooting#the-key-template-was-changed": "key template changed",
    "troubleshooting#the-table-was-restored-or-replaced": "table restored, token_fell, table replaced",
    "troubleshooting#two-stages-are-on-one-table": "two stages on one table",
    "troubleshooting#an-old-and-a-new-version-of-the-library": "old and new library",
    "troubleshooting#locks-are-switched-off": "locks disabled by mistake",
    "troubleshooting#what-is-wrong-right-now": "incident",
    "command-line#hold-a-lock-over-several-steps": "ci pipeline, github actions",
    "workers#many-locks-at-once": "many locks",
}
WANTED = [(query, wanted) for wanted, queries in ANSWERS.items() for query in queries.split(", ")]
#: What leads to two pages.
ALSO = [(query, "recipes/maintenance") for query in ("pause", "maintenance")]


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """The pages that are found, in order, each with the section to which the hit leads, by what was searched."""
    command = ["node", str(ROOT / "tests" / "docs" / "search.js"), str(_SITE)]
    queries = [*dict(WANTED), *_words()]
    asked = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True, timeout=60)
    results = json.loads(asked.stdout)
    for query in queries:
        pages = [page for page, *_ in results[query]]
        assert len(pages) == len(set(pages)), f"{query!r} lists a page twice"
    return {query: {page: anchor for page, anchor, _ in results[query]} for query in queries}


def _words() -> dict[str, set[str]]:
    """The words that pages say they are found by, in the comments that docs/conf.py reads."""
    words: dict[str, set[str]] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        for line in re.findall(r"^<!-- search: (.*) -->$", page.read_text(), re.MULTILINE):
            for word in line.split(", "):
                words.setdefault(word, set()).add(page.relative_to(ROOT / "docs").with_suffix("").as_posix())
    return words


@pytest.mark.parametrize(("query", "wanted"), [*WANTED, *ALSO])
def test_what_people_search_for_is_among_the_first_results(query, wanted, found):
    page, _, section = wanted.partition("#")
    assert page in list(found[query])[:_FIRST]
    assert not section or found[query][page] == f"#{section}"


def test_each_page_is_among_the_first_results_for_the_words_that_it_names(found):
    words = _words()
    assert len(words) > 100
    assert {word: pages for word, pages in words.items() if not pages <= set(list(found[word])[:_FIRST])} == {}


def test_each_result_leads_to_a_place_that_its_page_has(found):
    places = {(page, anchor) for pages in found.values() for page, anchor in pages.items() if anchor}
    assert len(places) > 100
    ids = {page: re.findall(r'\bid="([^"]+)"', (_SITE / f"{page}.html").read_text()) for page, _ in places}
    assert {(page, anchor) for page, anchor in places if anchor.removeprefix("#") not in ids[page]} == set()
