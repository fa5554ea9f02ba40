"""What is judged only when the app is synthesized.

By then, aspects have changed what they change: log levels, removal policies, replicas. What they override with
``add_property_override`` is not in an attribute of a resource. So the template is judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import cx_api
from constructs import IConstruct, IValidation


class Template:
    """The template of a stack, as it is about to be written."""

    def __init__(self, stack: cdk.Stack) -> None:
        self._stack = stack
        self.resources: dict[str, Any] = {}  # by logical id

    def of(self, resource: cdk.CfnResource) -> dict[str, Any]:
        """The definition of a resource: its ``Properties``, its ``DeletionPolicy``. Empty if it is left out."""
        return dict(self.resources.get(self._stack.resolve(resource.logical_id), {}))

    def properties(self, resource: cdk.CfnResource) -> dict[str, Any]:
        return dict(self.of(resource).get("Properties", {}))

    def render(self) -> None:
        synthesizer = cdk.LegacyStackSynthesizer()
        synthesizer.bind(self._stack)
        with TemporaryDirectory() as folder:
            synthesizer._synthesize_template(cast("Any", _Session(folder)))
            self.resources = json.loads((Path(folder) / self._stack.template_file).read_text()).get("Resources", {})


_templates: WeakKeyDictionary[cdk.Stack, Template] = WeakKeyDictionary()


def judge(construct: IConstruct, reading: Callable[[Template], Iterable[str] | None]) -> None:
    """Call ``reading`` when ``construct`` is synthesized: after all aspects, and before annotations are written.

    reading: takes the template of the construct's stack, and gives errors, which fail the synthesis. It may annotate
        warnings.
    """
    stack = cdk.Stack.of(construct)
    template = _templates.get(stack)
    if template is None:
        template = _templates[stack] = Template(stack)
        # A stack is validated before what is in it: its template is rendered once for all that is judged.
        stack.node.add_validation(_Validation(template.render))
    construct.node.add_validation(_Validation(lambda: reading(template)))


def warn(construct: IConstruct, id: str, text: str) -> None:
    cdk.Annotations.of(construct).add_warning_v2(f"lambda-lock:{id}", text)


@jsii.implements(IValidation)
class _Validation:
    def __init__(self, reading: Callable[[], Iterable[str] | None]) -> None:
        self._reading = reading

    def validate(self) -> list[str]:
        return [*(self._reading() or ())]


@jsii.implements(cdk.ISynthesisSession)
class _Session:
    """A synthesis whose files nobody deploys."""

    def __init__(self, folder: str) -> None:
        self._assembly = cx_api.CloudAssemblyBuilder(folder)

    @property
    def assembly(self) -> cx_api.CloudAssemblyBuilder:
        return self._assembly

    @property
    def outdir(self) -> str:
        return self._assembly.outdir
