"""DynamoDB's refusals in the words of a user: what is wrong, and what to do about it."""

from __future__ import annotations

from .core.outcome import ServiceError
from .errors import LockArgumentError, LockConfigurationError, LockError, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .core.requests import Place

_CREDENTIALS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
    }
)


def explain(error: ServiceError, place: Place) -> LockError:
    """The error to raise ``from`` the service's."""
    said, code = f" (DynamoDB said {error.code}: {error.message})", error.code
    if code == "ResourceNotFoundException":
        return LockConfigurationError(
            f"table {place.table!r} was not found in this account and Region. Create it (LockTable does), "
            f"or set LAMBDA_LOCK_TABLE, the Region or the endpoint to where it is{said}",
            key=place.key,
        )
    if code in ("AccessDeniedException", "AccessDenied") and error.operation in ("Scan", "Query"):
        return LockConfigurationError(
            f"permission dynamodb:{error.operation} on table {place.table!r} is missing. Listing locks needs it, "
            f"beyond the four permissions of a lock{said}",
            key=place.key or None,
        )
    if code in ("AccessDeniedException", "AccessDenied"):
        return LockConfigurationError(
            f"permission dynamodb:{error.operation} on table {place.table!r} is missing. A lock needs "
            "dynamodb:GetItem, PutItem, UpdateItem and DeleteItem on the table's ARN: LockTable.grant(function) gives "
            f"exactly these{said}",
            key=place.key,
        )
    if code in _CREDENTIALS:
        return LockConfigurationError(
            f"the credentials were refused: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN{said}",
            key=place.key,
        )
    if error.retryable:
        return TransportError(False, f"DynamoDB would not serve lock {place.key!r} in time{said}", key=place.key)
    if code in ("ValidationException", "ValidationError"):
        return _invalid(error, place, said)
    return LockConfigurationError(f"{error.operation} on table {place.table!r} was refused{said}", key=place.key)


def _invalid(error: ServiceError, place: Place, said: str) -> LockError:
    message = error.message.lower()
    if "size" in message and "exceeded" in message:
        return LockArgumentError(
            f"the row of lock {place.key!r} is too large: store less data and fewer attributes{said}", key=place.key
        )
    if "key" in message:
        names = " and ".join(map(repr, place.key_names))
        return LockConfigurationError(
            f"table {place.table!r} does not have the key schema {names} (string). Give partition_key_name= and "
            f"sort_key_name= as the table has them (or LAMBDA_LOCK_PARTITION_KEY, LAMBDA_LOCK_SORT_KEY){said}",
            key=place.key,
        )
    return LockConfigurationError(
        f"table {place.table!r} refused the request of lock {place.key!r}{said}", key=place.key
    )
