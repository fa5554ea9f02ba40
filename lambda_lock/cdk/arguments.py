"""Arguments of the wrong type are refused here, by the name of the parameter, before the CDK is told of them."""

from __future__ import annotations

from collections.abc import Mapping


def kind(value: object) -> str:
    return f"{value!r} (str)" if isinstance(value, str) else type(value).__name__


def wrong(parameter: str, value: object, wanted: str, remedy: str = "") -> TypeError:
    """The error for an argument of the wrong type. remedy: how to go on; it ends the error."""
    return TypeError(f"{parameter} must be {wanted}, not {kind(value)}{remedy}")


def check_text(parameter: str, value: object, remedy: str) -> None:
    if not isinstance(value, str):
        raise wrong(parameter, value, "a str", f". {remedy}")


def check_flag(parameter: str, value: object) -> None:
    """Any text is true, so a name passed by mistake would go unnoticed."""
    if not isinstance(value, bool):
        raise wrong(parameter, value, "True or False")


def check_tags(tags: object) -> None:
    if not isinstance(tags, Mapping) or not all(isinstance(each, str) for pair in tags.items() for each in pair):
        raise TypeError(f"tags must be a dict of str and str, not {tags!r}")


def check_key(key: object) -> None:
    if key is not None and not hasattr(key, "key_arn"):
        raise wrong("encryption_key", key, "a Key of aws_kms or None", ". For an ARN, call kms.Key.from_key_arn")


def check_function(function: object) -> None:
    if not hasattr(function, "function_arn"):
        raise wrong("function", function, "a Function of aws_lambda")
