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

#: What leads to two pages.
ALSO = {"pause": "recipes/maintenance", "maintenance": "recipes/maintenance"}
WANTED = {  # what people type, and the page or section that answers
    "skip a run": "recipes/cron",
    "cron": "recipes/cron",
    "cron jobs": "recipes/cron",
    "once an hour": "recipes/once-an-hour",
    "rate": "rate-limits",
    "rate limit": "semaphores",
    "rate limiter": "rate-limits",
    "requests per second": "rate-limits",
    "too many requests": "rate-limits",
    "429": "rate-limits",
    "token bucket": "rate-limits",
    "throttle": "semaphores",
    "throttled": "rate-limits",
    "throttling": "semaphores",
    "at most 5": "semaphores",
    "semaphore": "semaphores",
    "concurrency limit": "semaphores",
    "max concurrency": "semaphores",
    "who holds a permit": "semaphores#seeing-who-holds",
    "distributed lock": "locks-around-functions",
    "mutex": "locks-around-functions",
    "singleton": "locks-around-functions",
    "with_lock": "locks-around-functions",
    "race condition": "locks-around-functions",
    "readers": "shared-locks",
    "read-write lock": "shared-locks",
    "shared lock": "shared-locks",
    "rwlock": "shared-locks",
    "migration": "shared-locks",
    "weights": "semaphores#several-permits-at-once-weights",
    "drain": "recipes/maintenance",
    "maintenance mode": "recipes/maintenance",
    "tenant limit": "recipes/tenants",
    "reentrant": "locks-around-functions#inside-the-function",
    "409": "locks-around-functions#answer-409-while-busy",
    "503": "locks-around-functions#answer-409-while-busy",
    "retry-after header": "locks-around-functions#answer-409-while-busy",
    "lock stuck": "troubleshooting",
    "stuck lock": "command-line#release-by-force",
    "unlock": "command-line#release-by-force",
    "force release": "command-line#release-by-force",
    "release all": "command-line#release-by-force",
    "delete lock": "command-line#release-by-force",
    "who holds": "command-line#see-who-holds-what",
    "see who holds a lock": "command-line#see-who-holds-what",
    "list locks": "command-line#see-who-holds-what",
    "pause": "command-line#pause-a-job-for-maintenance",
    "maintenance": "command-line#pause-a-job-for-maintenance",
    "dashboard": "command-line#over-time-in-a-browser",
    "flock": "command-line#run-a-command-under-a-lock",
    "local": "command-line#a-local-engine",
    "local development": "getting-started",
    "how to test": "testing",
    "unit test": "testing",
    "mock": "testing",
    "moto": "testing#with-moto",
    "freezegun": "testing#time",
    "time travel": "testing#time",
    "fargate": "workers",
    "ECS": "workers",
    "SIGTERM": "workers",
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
    "cache stampede": "compute-once",
    "token refresh": "compute-once",
    "double charge": "idempotent-apis",
    "idempotency key": "idempotent-apis",
    "422": "idempotent-apis",
    "forget": "compute-once#forget",
    "invalidate cache": "compute-once#forget",
    "multi tenant": "compute-once#tenants",
    "provisioned concurrency": "recipes/provisioned",
    "snapstart": "recipes/provisioned",
    "cold start": "cold-start",
    "exactly once": "deduplicate",
    "idempotency": "deduplicate",
    "duplicate": "deduplicate",
    "dedupe": "deduplicate",
    "duplicate message": "deduplicate",
    "SQS": "batches",
    "visibility timeout": "batches",
    "batch item failures": "batches",
    "fifo queue": "batches",
    "pipes": "batches",
    "kafka": "batches#kafka",
    "leader": "leader-election",
    "fencing token": "transactions",
    "deadlock": "several-keys",
    "permissions": "deploy",
    "iam": "deploy",
    "permission denied": "troubleshooting#lockconfigurationerror",
    "access denied": "troubleshooting#lockconfigurationerror",
    "AccessDeniedException": "troubleshooting#lockconfigurationerror",
    "ResourceNotFoundException": "troubleshooting#lockconfigurationerror",
    "unable to locate credentials": "troubleshooting#lockconfigurationerror",
    "encryption": "deploy#permissions",
    "kms": "deploy#permissions",
    "vpc": "deploy-cdk#vpc-endpoints",
    "cross account": "deploy-cdk#other-accounts",
    "terraform": "deploy-templates",
    "async": "asyncio",
    "asyncio": "asyncio",
    "mypy": "stability#what-is-supported",
    "type hints": "stability#what-is-supported",
    "upgrade": "stability",
    "web framework": "web",
    "ALB": "web",
    "cost": "costs",
    "costs": "costs",
    "price": "costs",
    "hot partition": "costs#a-hot-key",
    "gdpr": "table#what-it-stores-and-for-how-long",
    "personal data": "table#what-it-stores-and-for-how-long",
    "delete": "table#what-it-stores-and-for-how-long",
    "log events": "troubleshooting#log-events",
    "environment variables": "settings#environment-variables",
    "disable locks": "settings#environment-variables",
    "lambda timeout": "settings",
    "timeout": "waiting#the-defaults-of-wait",
    "LockNotGrantedError": "troubleshooting#locknotgrantederror",
    "LockTimeoutError": "troubleshooting#locktimeouterror",
    "lock lost": "troubleshooting#locklosterror",
    "ThrottlingException": "outages",
    "lock expired": "troubleshooting",
    "clock skew": "safety-assumptions",
    "global table": "safety-assumptions",
    "starvation": "waiting",
    "functions skipped for hours": "troubleshooting#functions-are-skipped-for-hours",
    "table throttled at night": "troubleshooting#the-table-is-throttled",
    "table deleted": "troubleshooting#the-table-or-its-key-was-deleted",
    "kms key deleted": "troubleshooting#the-table-or-its-key-was-deleted",
    "wrong region": "troubleshooting#the-region-is-wrong",
    "role without permission": "troubleshooting#a-role-has-no-permission",
    "wrong clock": "troubleshooting#a-clock-is-wrong",
    "waker dead": "troubleshooting#the-waker-is-dead",
    "rate row damaged": "troubleshooting#the-row-of-a-rate-limit-is-damaged",
    "semaphore full": "troubleshooting#a-semaphore-is-full-of-dead-executions",
    "semaphore full of dead executions": "troubleshooting#a-semaphore-is-full-of-dead-executions",
    "done but without effect": "troubleshooting#an-event-is-done-but-without-effect",
    "result of an old version": "troubleshooting#duplicates-get-a-result-of-an-old-version",
    "permits changed": "troubleshooting#permits-were-changed",
    "key template changed": "troubleshooting#the-key-template-was-changed",
    "table restored": "troubleshooting#the-table-was-restored-or-replaced",
    "token_fell": "troubleshooting#the-table-was-restored-or-replaced",
    "table replaced": "troubleshooting#the-table-was-restored-or-replaced",
    "two stages on one table": "troubleshooting#two-stages-are-on-one-table",
    "old and new library": "troubleshooting#an-old-and-a-new-version-of-the-library",
    "locks disabled by mistake": "troubleshooting#locks-are-switched-off",
    "incident": "troubleshooting#what-is-wrong-right-now",
    "ci pipeline": "command-line#hold-a-lock-over-several-steps",
    "github actions": "command-line#hold-a-lock-over-several-steps",
    "many locks": "workers#many-locks-at-once",
}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """The pages that are found, in order, each with the section to which the hit leads, by what was searched."""
    command = ["node", str(ROOT / "tests" / "docs" / "search.js"), str(_SITE)]
    queries = [*WANTED, *_words()]
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


@pytest.mark.parametrize(("query", "wanted"), [*WANTED.items(), *ALSO.items()])
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
