"""The documentation site: `make docs` builds it from the pages of this folder and the docstrings of the library.

The pages are read on the repository's host as well. What differs there is changed here, while they are built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

STOOD_IN = (
    "aws_cdk",
    "aws_durable_execution_sdk_python",
    "boto3",
    "botocore",
    "constructs",
    "jsii",
)  # the constructs' signatures need their names only, and the CDK needs Node


class _StandIn(type):
    """A class for any name of theirs: it can be subclassed, called, and joined with others by ``|``."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __iter__(cls) -> Iterator[Any]:  # over the members of an enumeration
        return iter(())


def _stand_in(name: str) -> _StandIn:
    def begin(self: object, *_: object, **__: object) -> None:
        """Take anything."""

    does = {"__init__": begin, "__call__": lambda self, subject: subject}  # called as a decorator
    return _StandIn(name, (), does)


class _Finder(MetaPathFinder, Loader):
    """Finds their modules, all of whose names stand in."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in STOOD_IN else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = _module_name  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is to be run."""


def _module_name(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _stand_in(name)


sys.meta_path.insert(0, _Finder())

import sphinx.search  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.pycode import ModuleAnalyzer  # noqa: E402

from lambda_lock import __version__  # noqa: E402 - it is found by the line above

project = "lambda_lock"
author = "the authors of lambda_lock"
copyright = author
version = release = __version__
repository = "https://github.com/lambda-lock/lambda-lock"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["templates", "deploy", "performance"]  # files that pages show
highlight_language = "none"  # of blocks that name no language
default_role = "code"
maximum_signature_line_length = 80

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "fieldlist"]
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
autodoc_default_options = {
    "members": True,
    "undoc-members": False,
    "inherited-members": "Exception, BaseException, tuple",
}

html_theme = "furo"
html_title = f"lambda_lock {version}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(DOCS / "scorer.js")
html_css_files = ["site.css"]
html_js_files = ["calculators.js", ("tables.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"source_repository": repository, "source_branch": "main", "source_directory": "docs/"}

_LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
_NAMED = re.compile(r"(\*{0,2}[a-z][a-z0-9_]*(?:, \*{0,2}[a-z][a-z0-9_]*)*): (.*)")


def _link(page: Path, match: re.Match[str]) -> str:
    """A link to a file outside this folder leads to the repository, because the site has only pages."""
    target = (page.parent / match[1]).resolve()
    if target.is_relative_to(DOCS):
        return match[0]
    if not target.exists():
        raise FileNotFoundError(f"{page.name} links to {match[1]}, which does not exist")
    kind = "tree" if target.is_dir() else "blob"
    return f"]({repository}/{kind}/main/{target.relative_to(ROOT).as_posix()}{match[2] or ''})"


def _page_if_any(match: re.Match[str]) -> str:
    """A line ``name*`` of a table of contents: a page that another version has, which is left out where it is not."""
    return match[0] if list(DOCS.glob(f"{match[1]}.md")) else ""


_SEARCHED = re.compile(r"^<!-- search: (.+) -->$", re.MULTILINE)
_ELSEWHERE = "(On the site there is a calculator here.)\n"


def _found_by(match: re.Match[str]) -> str:
    """Words that people use for what a page or section is about: scorer.js finds it by each of them first.

    They are written as a comment, which readers of the file do not see.
    """
    words = ", ".join(f"! {word}" for word in match[1].split(", "))
    return f"```{{index}} {words}\n```\n"


def read_page(app: Any, name: str, source: list[str]) -> None:
    """Leave out what is not for the site, and lead links out of this folder to the repository.

    Comments are for the tests, and a note that only the site has a calculator for those who read the file.
    """
    text = _SEARCHED.sub(_found_by, source[0])
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL).replace(_ELSEWHERE, "")
    text = _LINK.sub(partial(_link, Path(app.env.doc2path(name))), text)
    source[0] = re.sub(r"^([a-z-]+\*)\n", _page_if_any, text, flags=re.MULTILINE)


def _is_literal(lines: list[str]) -> bool:
    """Whether an indented line after these is literal already: it follows ``::``, or another such line."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last.endswith("::") or last.startswith("    ")


def read_docstring(app: Any, what: str, name: str, subject: object, options: object, lines: list[str]) -> None:
    """Turn the lines ``parameter: what it means`` of a paragraph into a list."""
    result: list[str] = []
    is_listing = False
    for index, line in enumerate(lines):
        begins = index == 0 or not lines[index - 1].strip()
        match = _NAMED.fullmatch(line)
        if match and (begins or is_listing):
            is_listing = True
            names = ", ".join(f"``{one}``" for one in match[1].split(", "))
            result.append(f"- {names}: {match[2]}")
        elif is_listing and line.startswith("    "):
            result.append(f"  {line.strip()}")
        else:
            if line.startswith("    ") and begins and not is_listing and not _is_literal(result):
                result += ["::", ""]  # an example without an introduction
            is_listing = False
            result.append(line)
    lines[:] = result


def one_signature(analyze: Any) -> Any:
    """Read a module as Sphinx does, but forget its overloads: the reference shows the signature that help() shows."""

    def read(self: ModuleAnalyzer) -> None:
        analyze(self)
        self.overloads = {}

    return read


class SectionIndex(sphinx.search.IndexBuilder):
    """The search's index, in which each section stands for itself, as ``page#section``: scorer.js leads to it."""

    def feed(self, docname: str, filename: Any, title: str, doctree: nodes.document) -> None:
        for section in doctree.findall(nodes.section):
            is_page = isinstance(section.parent, nodes.document)
            name = docname if is_page else f"{docname}#{section['ids'][0]}"
            part = doctree.copy()
            part += [child.deepcopy() for child in section if not isinstance(child, nodes.section)]
            super().feed(name, filename, section.next_node(nodes.title).astext(), part)

    def prune(self, docnames: Any) -> None:
        super().prune([name for name in self._titles if name.partition("#")[0] in docnames])


def leave_out(app: Any, what: str, name: str, subject: object, skip: bool, options: object) -> bool | None:
    """Show no ``__new__``, which nobody calls, and no errors below their module: the page has them one by one."""
    return True if name == "__new__" or (what == "module" and name.endswith("Error")) else None


def setup(app: Any) -> None:
    sphinx.search.IndexBuilder = SectionIndex  # type: ignore[misc]
    ModuleAnalyzer.analyze = one_signature(ModuleAnalyzer.analyze)  # type: ignore[method-assign]
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-skip-member", leave_out)
