"""The search of the built site leads to the right page. `make docs` builds it, and runs this.

The site's own scripts search its own index, in Node.
"""

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

#: What people type besides the words that pages name, and the page or section that they look for.
ANSWERS = {
    "rate": "rate-limits",
    "who holds a permit": "semaphores#seeing-who-holds",
    "weights": "semaphores#several-permits-at-once-weights",
    "retry-after header": "locks-around-functions#answer-409-while-busy",
    "fargate": "workers",
    "stripe": "recipes/webhook",
    "s3": "recipes/s3",
    "kinesis": "recipes/streams",
    "transfer money": "recipes/transfer",
    "step functions": "step-functions",
    "waitForTaskToken": "waiting-asleep",
    "shared result": "compute-once",
    "multi tenant": "compute-once#tenants",
    "snapstart": "recipes/provisioned",
    **dict.fromkeys(("fifo queue", "pipes"), "batches"),
    "kafka": "batches#kafka",
    "deadlock": "several-keys",
    "iam": "deploy",
    "kms": "deploy#permissions",
    "vpc": "deploy-cdk#vpc-endpoints",
    "cross account": "deploy-cdk#other-accounts",
    "terraform": "deploy-templates",
    "async": "asyncio",
    "LockNotGrantedError": "troubleshooting#locknotgrantederror",
    "LockTimeoutError": "troubleshooting#locktimeouterror",
    "kms key deleted": "troubleshooting#the-table-or-its-key-was-deleted",
    "done but without effect": "troubleshooting#an-event-is-done-but-without-effect",
    **dict.fromkeys(("ci pipeline", "github actions"), "command-line#hold-a-lock-over-several-steps"),
}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """The pages that are found, in order, each with the section to which the hit leads, by what was searched."""
    command = ["node", str(ROOT / "tests" / "docs" / "search.js"), str(_SITE)]
    queries = [*ANSWERS, *_words()]
    asked = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True, timeout=60)
    results = json.loads(asked.stdout)
    for query in queries:
        pages = [page for page, *_ in results[query]]
        assert len(pages) == len(set(pages)), f"{query!r} lists a page twice"
    return {query: {page: anchor for page, anchor, _ in results[query]} for query in queries}


def _words() -> dict[str, dict[str, set[str]]]:
    """The words by which pages say that they are found, in the comments that docs/conf.py reads.

    By page, with the anchors of the sections that say so; "" for the page itself.
    """
    words: dict[str, dict[str, set[str]]] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        name, anchor = page.relative_to(ROOT / "docs").with_suffix("").as_posix(), ""
        for heading, said in re.findall(r"^##+ (.*)$|^<!-- search: (.*) -->$", page.read_text(), re.MULTILINE):
            if heading:
                anchor = "#" + re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-")
            for word in said.split(", ") if said else ():
                words.setdefault(word, {}).setdefault(name, set()).add(anchor)
    return words


@pytest.mark.parametrize(("query", "wanted"), ANSWERS.items())
def test_what_people_search_for_is_among_the_first_results(query, wanted, found):
    page, _, section = wanted.partition("#")
    assert page in list(found[query])[:_FIRST]
    assert not section or found[query][page] == f"#{section}"


def test_each_page_and_section_is_among_the_first_results_for_the_words_that_it_names(found):
    words = _words()
    assert len(words) >= 759  # fewer: a page has lost words by which it was found
    for word, pages in words.items():
        first = dict(list(found[word].items())[:_FIRST])
        assert pages.keys() <= first.keys(), word
        assert [page for page in pages if "" not in pages[page] and first[page] not in pages[page]] == [], word


def test_each_result_leads_to_a_place_that_its_page_has(found):
    places = {(page, anchor) for pages in found.values() for page, anchor in pages.items() if anchor}
    assert len(places) > 100
    ids = {page: re.findall(r'\bid="([^"]+)"', (_SITE / f"{page}.html").read_text()) for page, _ in places}
    assert {(page, anchor) for page, anchor in places if anchor.removeprefix("#") not in ids[page]} == set()
