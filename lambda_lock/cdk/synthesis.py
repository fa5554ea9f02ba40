"""What is judged only when the app is synthesized.

By then, aspects have changed what they change: log levels, removal policies, replicas.
"""

from __future__ import annotations

from collections.abc import Callable

import jsii
from constructs import IConstruct, IValidation


def judge(construct: IConstruct, look: Callable[[], list[str]]) -> None:
    """Call ``look`` when ``construct`` is synthesized: after all aspects, and before annotations are written.

    look: returns errors, which fail the synthesis. It may annotate warnings.
    """
    construct.node.add_validation(_Validation(look))


@jsii.implements(IValidation)
class _Validation:
    def __init__(self, look: Callable[[], list[str]]) -> None:
        self._look = look

    def validate(self) -> list[str]:
        return self._look()
