"""The CDK snippets of the pages about deploying and packaging and of README.md run, each in a stack of its own."""

import re
from importlib.metadata import version

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns

from lambda_lock.cdk import LockTable
from lambda_lock.client import settings
from lambda_lock.observe import metrics
from rig.engine import ROOT
from tests.cdk.apps import in_an_account, new_function, policies, resources, synthesized, the_only
from tests.cdk.statements import FOUR_ACTIONS

_PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in ("deploy.md", "deploy-cdk.md", "recipes/cron.md"))
_BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SNIPPETS = _BLOCK.findall(_PAGE)
_README_SNIPPETS = _BLOCK.findall((ROOT / "README.md").read_text())

_PACKAGING = (ROOT / "docs" / "packaging.md").read_text()

_OLDEST = version("aws-cdk-lib").startswith("2.166.")
_NEWER = ("from_lookup", "AccountPrincipal")  # what the oldest CDK lacks


def _run(snippet: str, stack: cdk.Stack) -> None:
    names = {
        "self": stack,
        "function": new_function(stack),
        "other_function": new_function(stack, "OtherFunction"),
        "topic": sns.Topic(stack, "Topic"),
        "key": kms.Key(stack, "Key"),
    }
    exec(compile(snippet, "docs/deploy.md", "exec"), names)


def test_each_snippet_makes_a_template():
    assert len(_SNIPPETS) >= 4
    assert _README_SNIPPETS
    for snippet in _SNIPPETS + _README_SNIPPETS:
        if _OLDEST and any(word in snippet for word in _NEWER):
            continue
        stack = in_an_account()
        _run(snippet, stack)
        made = any(word in snippet for word in ("LockLayer", "from_lookup", "lockTable"))  # no policy
        assert resources(stack, "AWS::IAM::Policy") or made


def test_the_snippet_of_the_layer_gives_it_to_the_function(home):
    (snippet,) = (each for each in _SNIPPETS if "LockLayer" in each)
    _run(snippet, home)
    (layer,) = resources(home, "AWS::Lambda::LayerVersion")
    layers = [each["Properties"].get("Layers") for each in resources(home, "AWS::Lambda::Function").values()]
    assert [{"Ref": layer}] in layers


def test_the_first_two_lines_are_all_that_a_function_needs():
    by_hand, as_documented = in_an_account(), in_an_account()
    _run("", by_hand)
    LockTable(by_hand, "Locks").connect(by_hand.node.find_child("Function"))  # type: ignore[arg-type]
    _run(_SNIPPETS[0], as_documented)
    assert len([line for line in _SNIPPETS[0].splitlines() if line and "import" not in line]) == 2
    assert synthesized(as_documented) == synthesized(by_hand)


def test_the_page_names_every_variable_and_every_action():
    variables = (
        settings.TABLE_VARIABLE,
        settings.PARTITION_KEY_VARIABLE,
        settings.SORT_KEY_VARIABLE,
        metrics.METRICS_VARIABLE,
        metrics.GROUP_VARIABLE,
    )
    for name in (*variables, *FOUR_ACTIONS, metrics.LOST, metrics.NOT_GRANTED, metrics.DUPLICATE):
        assert name in _PAGE


def test_the_page_names_every_option_of_the_construct():
    code = LockTable.__init__.__code__
    options = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    assert "partition_key_name" in options
    for option in options:
        assert re.search(rf"^\| .*`{option}`", _PAGE, re.MULTILINE), option


@pytest.mark.skipif(not hasattr(lambda_.Runtime, "PYTHON_3_13"), reason="the oldest CDK does not know Python 3.13")
def test_the_snippet_deploys_the_folder_and_connects_the_function(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "app.py").write_text((ROOT / "docs" / "packaging" / "app.py").read_text())
    (snippet,) = re.findall(r"^```py\n((?:(?!^```).)*?aws_cdk.*?)^```$", _PACKAGING, re.MULTILINE | re.DOTALL)
    snippet = snippet.replace('"package"', repr(str(tmp_path / "package")))  # Node has a working directory of its own
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path / "out"), analytics_reporting=False), "Stack")
    exec(compile(snippet, "docs/packaging.md", "exec"), {"self": stack})
    properties = the_only(stack, "AWS::Lambda::Function")["Properties"]
    assert properties["Architectures"] == ["arm64"]
    assert "LAMBDA_LOCK_TABLE" in properties["Environment"]["Variables"]
    assert policies(stack)
    (asset,) = (tmp_path / "out").glob("asset.*/app.py")
    assert asset.read_text() == (tmp_path / "package" / "app.py").read_text()
