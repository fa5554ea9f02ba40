"""What an error says when DynamoDB refuses credentials, the time or a request."""

import pytest

from lambda_lock.client.explain import explain
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.requests import Place
from lambda_lock.core.schema import JAVA

PLACE = Place("locks", JAVA, "key", "a", None, None)


@pytest.mark.parametrize(
    ("message", "is_schema"),
    [
        ("The provided key element does not match the schema", True),
        ("One or more parameter values were invalid: Missing the key id in the item", True),
        ("One or more parameter values were invalid: Type mismatch for key id expected: N actual: S", True),
        ("One of the required keys was not given a value", True),
        ("Cannot update attribute key. This attribute is part of the key", True),
        ('ExpressionAttributeNames contains invalid key: Syntax error; key: "x"', False),
        ("Type mismatch for Index Key owner Expected: S Actual: N IndexName: by-owner", False),
        ("The AttributeValue for a key attribute cannot contain an empty string value. Key: id", False),
        ("Invalid UpdateExpression: An expression attribute name used in the document path is not a keyword", False),
    ],
)
def test_only_a_message_about_the_tables_keys_is_said_to_be_one(message, is_schema):
    _, error = explain(ServiceError("ValidationException", message), PLACE)
    assert ("key schema" in str(error)) is is_schema
    assert message in str(error)


@pytest.mark.parametrize("signed_with", ["", "the role of the task"])
def test_credentials_from_elsewhere_are_not_said_to_be_in_the_environment(signed_with):
    refused = ServiceError("UnrecognizedClientException", "The security token is invalid")
    _, error = explain(refused.answers("UpdateItem", "eu-west-1", signed_with), PLACE)
    assert "AWS_ACCESS_KEY_ID" not in str(error)
    assert signed_with in str(error)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidSignatureException", "Signature expired: 20261128T080000Z is now earlier than 20261128T082500Z"),
        ("InvalidSignatureException", "Signature not yet current: 20261128T092000Z is later than 20261128T084500Z"),
        ("RequestTimeTooSkewed", "too far"),
    ],
)
def test_a_wrong_clock_is_named(code, message):
    reason, error = explain(ServiceError(code, message, True, 1_795_236_553), PLACE)
    assert reason == "credentials"
    assert "the clock of this machine is wrong by about" in str(error)
    assert "AWS_ACCESS_KEY_ID" not in str(error)
