"""Templates in plain words and forms, so that those of several tools can be compared."""

import json
from collections.abc import Mapping
from typing import Any


def as_of_one_region(properties: dict[str, Any]) -> None:
    """Give the properties of a GlobalTable in one Region the form of the same AWS::DynamoDB::Table."""
    (replica,) = properties.pop("Replicas")
    for name in ("DeletionProtectionEnabled", "PointInTimeRecoverySpecification"):
        properties[name] = replica[name]
    if "SSESpecification" in replica:
        properties["SSESpecification"] |= replica["SSESpecification"]


def in_words(value: Any, names: Mapping[str, str]) -> Any:
    """A template with texts in place of functions: ``${Locks.Arn}`` for each way to say it.

    names: what logical ids are called in these texts.
    """
    match value:
        case {"Ref": str(name)}:
            return f"${{{names.get(name, name)}}}"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"${{{names.get(name, name)}.{attribute}}}"
        case {"Fn::GetAtt": str(both)}:
            return f"${{{both}}}"
        case {"Fn::Sub": str(text)}:
            return text
        case {"Fn::Join": ["", [*parts]]}:
            return "".join(in_words(part, names) for part in parts)
        case dict():
            return {name: in_words(each, names) for name, each in value.items()}
        case list():
            return [in_words(each, names) for each in value]
        case _:
            return value


def written(definition: Any) -> Any:
    """A state machine's definition of a template, as JSON: the partition is all that it leaves to CloudFormation."""
    assert definition.keys() == {"Fn::Join"}
    blank, parts = definition["Fn::Join"]
    return json.loads(blank.join("aws" if part == {"Ref": "AWS::Partition"} else part for part in parts))
