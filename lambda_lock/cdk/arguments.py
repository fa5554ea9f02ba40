"""Arguments of the wrong type are refused here, by the name of the parameter, before the CDK is told of them."""

from __future__ import annotations

from collections.abc import Mapping


def kind(value: object) -> str:
    return f"{value!r} (str)" if isinstance(value, str) else type(value).__name__


def check_text(parameter: str, value: object, remedy: str) -> None:
    """remedy: a sentence that ends the error."""
    if not isinstance(value, str):
        raise TypeError(f"{parameter} must be a str, not {kind(value)}. {remedy}")


def check_flag(parameter: str, value: object) -> None:
    """Any text is true, so a name passed by mistake would go unnoticed."""
    if not isinstance(value, bool):
        raise TypeError(f"{parameter} must be True or False, not {kind(value)}")


def check_tags(tags: object) -> None:
    if not isinstance(tags, Mapping) or not all(isinstance(each, str) for pair in tags.items() for each in pair):
        raise TypeError(f"tags must be a dict of str and str, not {tags!r}")


def check_key(key: object) -> None:
    if key is not None and not hasattr(key, "key_arn"):
        raise TypeError(
            f"encryption_key must be a Key of aws_kms or None, not {kind(key)}. For an ARN, call kms.Key.from_key_arn"
        )


def check_function(function: object) -> None:
    if not hasattr(function, "function_arn"):
        raise TypeError(f"function must be a Function of aws_lambda, not {kind(function)}")
