"""The documentation site: what its pages must have, and its calculators in a browser. `make docs` checks the links."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest

import lambda_lock
import lambda_lock.batch
from lambda_lock.observe.log import LEVELS
from rig.engine import ROOT
from tests.support.browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = ROOT / "docs"
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()
REFERENCE = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
MODULES = ["lambda_lock", *(f"lambda_lock.{name}" for name in ("batch", "testing", "transport", "table", "web"))]
ERRORS = [name for name in lambda_lock.__all__ if name.endswith("Error")]


def _public(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    listed = getattr(loaded, "__all__", None)
    if listed is None:
        listed = [name for name, one in vars(loaded).items() if inspect.isfunction(one) and one.__module__ == module]
    return [name for name in listed if not name.startswith("_")]


def _is_described(name: str) -> bool:
    return re.search(rf"^\.\. auto\w+:: (?:\w+\.)*{name}$", REFERENCE, re.MULTILINE) is not None


@pytest.mark.parametrize("module", MODULES)
def test_each_public_name_is_in_the_reference(module):
    assert [name for name in _public(module) if not _is_described(name)] == []


@pytest.mark.parametrize("package", ["cdk", "durable"])
def test_the_names_of_a_package_with_an_extra_are_in_the_reference(package):
    names = re.search(r"__all__ = (\[.*?\])", (ROOT / "lambda_lock" / package / "__init__.py").read_text())
    assert names
    assert [name for name in ast.literal_eval(names[1]) if not _is_described(name)] == []


def _callables() -> Iterator[Any]:
    for module in map(importlib.import_module, MODULES):
        for name in _public(module.__name__):
            found = getattr(module, name)
            members = [found]
            if inspect.isclass(found) and not issubclass(found, BaseException):
                members = [function for method, function in vars(found).items() if not method.startswith("_")]
            yield from filter(inspect.isfunction, members)


@pytest.mark.parametrize("function", list(_callables()), ids=lambda one: f"{one.__module__}.{one.__qualname__}")
def test_each_option_of_a_public_function_is_described(function):
    said = inspect.getdoc(function) or ""
    options = inspect.signature(function).parameters.keys() - {"self", "unknown", "kind", "error", "trace"}
    referred = re.search(r"`(?:Lock|LockClient|MultiLock|process_sqs|Transport|HttpsTransport)\b|\bas for\b", said)
    missing = [option for option in options if option[0] != "_" and not re.search(rf"\b{option}\b", said)]
    assert not missing or referred


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_has_its_place_in_troubleshooting_with_what_to_do(name):
    if name == "LockError":
        assert "Every error is a `LockError`" in TROUBLESHOOTING
        return
    section = TROUBLESHOOTING.partition(f"\n### {name}\n")[2].partition("\n#")[0]
    assert "**What happened.**" in section
    assert "hat to do" in section


def test_each_log_event_is_in_troubleshooting_and_described_nowhere_else():
    table = TROUBLESHOOTING.partition("\n## Log events\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", table.partition("|---|")[2], re.MULTILINE)
    assert sorted(event for event, _ in rows) == sorted(LEVELS)
    assert all(what_to_do for _, what_to_do in rows)
    others = [page for page in DOCS.rglob("*.md") if page.name != "troubleshooting.md"]
    assert [page.name for page in others if "\n| `lost` |" in page.read_text()] == []


def test_each_environment_variable_is_in_settings_and_described_nowhere_else():
    sources = "\n".join(path.read_text() for path in (ROOT / "lambda_lock").rglob("*.py"))
    rows = "\n".join(re.findall(r"^\| `[A-Z].*", (DOCS / "settings.md").read_text(), re.MULTILINE))
    variables = set(re.findall(r"\bLAMBDA_LOCK_[A-Z_]+\b", sources))
    assert len(variables) >= 8
    assert {name for name in variables if rows.count(f"\n| `{name}` |") > 1 or f"`{name}`" not in rows} == set()
    elsewhere = {page.name for page in DOCS.rglob("*.md") if "\n| `LAMBDA_LOCK_" in page.read_text()}
    assert elsewhere <= {"settings.md", "deploy.md"}  # deploy.md says which of them are set there


_ABOUT_EVIDENCE = ("safety", "parity-tests")  # pages whose subject is what shows each claim


def test_names_of_tests_stand_in_footnotes_and_tables_and_not_in_the_text():
    for page in DOCS.rglob("*.md"):
        if not page.stem.startswith(_ABOUT_EVIDENCE):
            lines = [line for line in page.read_text().splitlines() if re.search(r"tests/[\w/]+\.py::\w", line)]
            assert [line for line in lines if not re.match(r"\[\^\d+\]: |\|", line)] == [], page.name


def test_links_between_pages_show_titles_and_not_the_names_of_files():
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        assert re.findall(r"\[`?[\w./-]+\.md`?\]\([^)]*\)", page.read_text()) == [], page.name


def test_each_diagram_has_a_dark_form():
    drawn = [*DOCS.glob("*.svg"), *(DOCS / "diagrams").glob("*.svg")]
    assert len(drawn) >= 8
    assert [svg.name for svg in drawn if "@media (prefers-color-scheme:dark)" not in svg.read_text()] == []


def test_the_defaults_of_wait_on_the_page_are_those_of_the_functions():
    """0, or None: then the page says what the time left means for it."""
    table = (DOCS / "waiting.md").read_text().partition("\n## The defaults of wait\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", table, re.MULTILINE)
    said = {name: text for names, text in rows for name in re.findall(r"`@?(?:client\.)?(.*?)`", names)}
    methods = ("acquire", "try_acquire", "forget", "acquire_all", "try_acquire_all", "resume", "adopt")
    functions: list[Any] = [
        *(getattr(lambda_lock.LockClient, name) for name in methods),
        *(lambda_lock.with_lock, lambda_lock.deduplicate, lambda_lock.batch.process_sqs),
        lambda_lock.batch.process_stream,
    ]
    for function in functions:
        wait = inspect.signature(function).parameters.get("wait")
        text = said[function.__name__]
        if wait is None:
            assert text == "never wait" or text.startswith("0:"), function
        else:
            assert text.startswith("0:") == (wait.default == 0), function


def _texts() -> Iterator[str]:
    """All texts in the library's code, with a mark where a value is put in."""
    for path in (ROOT / "lambda_lock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_each_text_in_troubleshooting_is_one_that_the_library_says():
    said = "\n".join(_texts())
    quoted = [
        first or second for first, second in re.findall(r'^\| \*(.+?)\* \||\*"(.+?)"\*', TROUBLESHOOTING, re.MULTILINE)
    ]
    assert len(quoted) >= 15
    for text in quoted:
        for part in re.split(r"…|'a'|dynamodb:\w+|kms:\w+|is lost(?=;)", text):
            fragment = part.strip(" '.;")
            assert fragment in said, f"nothing says {fragment!r}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as one:
        yield one


@pytest.fixture
def calculator(browser: Browser) -> Iterator[Callable[[str], Page]]:
    with contextlib.ExitStack() as pages:

        def show(name: str) -> Page:
            page = browser.new_page()
            pages.callback(page.close)
            page.set_content(f'<div class="calculator" data-calculator="{name}"></div>')
            page.add_script_tag(path=DOCS / "_static" / "calculators.js")
            return page

        yield show


def test_the_calculator_of_costs_agrees_with_the_table_of_costs(calculator):
    page = calculator("costs")
    page.fill("[name=waiting]", "0")
    assert "$1.25 a month" in page.inner_text("output")
    assert "500 times a second" in page.inner_text("output")
    page.fill("[name=waiting]", "100")
    page.fill("[name=looks]", "1")
    assert "$2.63 a month" in page.inner_text("output")  # 2.625
    page.fill("[name=waiting]", "0")
    for permits, price in (("5", "$2.50"), ("20", "$5.00"), ("100", "$22.50")):
        page.fill("[name=permits]", permits)
        assert price in page.inner_text("output")


def test_the_calculator_of_settings_warns_of_work_that_does_not_fit(calculator):
    page = calculator("settings")
    assert page.locator(".warn").count() == 0
    assert "at least 180 s" in page.inner_text("output")
    page.fill("[name=work]", "40")
    assert "does not fit" in page.inner_text(".warn >> nth=0")
    page.fill("[name=work]", "-1")
    assert "0 or more" in page.inner_text("output")


_FIVE = "<thead><tr>" + "<th>of one thing</th>" * 5 + "</tr></thead>"


def _table(cell: str) -> str:
    row = "<tr><td>a row</td>" + f"<td>{cell}</td>" * 4 + "</tr>"
    return f'<div class="table-wrapper" style="overflow-x: auto"><table>{_FIVE}<tbody>{row}</tbody></table></div>'


def test_on_a_narrow_screen_a_table_of_texts_is_a_list_and_what_scrolls_says_so(browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    texts, figures = _table("many words that take many lines " * 5), _table("1,000,000&nbsp;requests")
    picture = '<p><img src="data:,.svg"></p>'
    page.set_content(f'<article class="content">{texts}{figures}{picture}</article>')
    page.add_style_tag(path=DOCS / "_static" / "site.css")
    page.add_script_tag(path=DOCS / "_static" / "tables.js")
    assert page.locator("table").evaluate_all("all => all.map((one) => one.className)") == ["listed", ""]
    hints = "all => all.map((one) => getComputedStyle(one, '::before').content.includes('scrolls sideways'))"
    assert page.locator(".table-wrapper, p").evaluate_all(hints) == [False, True, True]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.close()


def test_each_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text()
    named = set(re.findall(r"^([a-z/-]+\*?)$", index, re.MULTILINE))
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert [page for page in pages if not any(fnmatch(page, name) for name in named)] == []


def test_no_two_pages_have_one_title():
    pages: dict[str, list[str]] = {}
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        (title,) = re.findall(r"^# (.+)$", text, re.MULTILINE)
        pages.setdefault(title, []).append(page.name)
    assert {title: names for title, names in pages.items() if len(names) > 1} == {}
