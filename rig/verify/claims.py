"""What the library assumes of AWS, as claims that a run checks one by one. docs/verified.md lists them."""

from __future__ import annotations

#: The claims by their names. The part before the dot is the check that decides them.
CLAIMS = {
    "dates.present": "Every answer has a Date, refusals and errors as well",
    "dates.truncated": "A Date changes at the full second",
    "dates.spread": "The clocks of two front ends differ by at most 0.5 s",
    "errors.condition": "A refused condition returns the row as it was (ALL_OLD)",
    "errors.condition_without_row": "A refused condition returns no row where there is none",
    "errors.validation": "A request that is not valid is a ValidationException",
    "errors.too_large": "A row over 400 KB is a ValidationException that speaks of its size",
    "errors.no_table": "A table that does not exist is a ResourceNotFoundException",
    "errors.credentials": "An unknown access key is an UnrecognizedClientException",
    "errors.skew": "A signature with a wrong time is refused with a Date, by which the next one is right",
    "errors.throttled_provisioned": "A provisioned table that throttles answers with a code that is sent again",
    "errors.throttled_on_demand": "An on-demand table at its maximum answers with a code that is sent again",
    "transactions.reasons": "A cancelled transaction has a reason and the row as it was for each item, in their order",
    "transactions.conflict": "Two transactions on one row: one is cancelled with TransactionConflict",
    "transactions.hundred": "A transaction takes 100 items",
    "transactions.token_repeated": "A transaction sent again with its token succeeds, and is carried out once",
    "transactions.token_other_items": "The same token with other items is an IdempotentParameterMismatchException",
    "transactions.token_length": "A token has at most 36 characters",
    "transactions.token_remembered": "A token is still known after 9 minutes and 50 seconds",
    "permissions.four_actions": "The policy of docs/deploy/policy.json is enough for a lock and its commit",
    "permissions.denied": "A refusal by IAM is an AccessDeniedException that names the action",
    "permissions.prefixes": "The policy of docs/deploy/policy-for-prefixes.json allows its prefix and no other key",
    "permissions.prefixes_in_transactions": "The same holds for each item of a transaction",
    "ttl.enabled": "create_table switches time to live on, and check_table finds it",
    "ttl.claimed": "A row past its time to live, not yet deleted, can be locked",
    "ttl.deleted": "DynamoDB deletes rows whose time to live has passed",
    "locks.https": "A lock is taken, refused to others, renewed and released over HTTPS",
    "locks.boto3": "A lock is taken, refused to others, renewed and released over boto3",
    "locks.dead_holder": "The lock of a dead holder is taken over at its stored expiry",
    "locks.commit": "A commit writes while the lock is held, and not after it was lost",
    "locks.semaphore": "A semaphore of two permits lets two hold and refuses the third",
    "cold_start.x86_64": "A function on x86_64 takes a lock",
    "cold_start.arm64": "A function on arm64 takes a lock",
    "cold_start.compiled": "Lambda's Python accepts the .pyc files that the layer brings",
    "cold_start.times": "INIT, first invocation and second",
}

#: Claims that no local engine can decide, and why. A run against one never says that they hold.
NOT_ON_AN_ENGINE = {
    "dates.spread": "an engine is one process with one clock",
    "errors.credentials": "an engine does not check signatures",
    "errors.skew": "an engine does not check signatures",
    "errors.throttled_provisioned": "an engine does not throttle",
    "errors.throttled_on_demand": "an engine does not throttle",
    "transactions.conflict": "an engine carries out transactions one after another",
    "permissions.prefixes": "an engine does not evaluate dynamodb:LeadingKeys",
    "permissions.prefixes_in_transactions": "an engine does not evaluate dynamodb:LeadingKeys",
    "ttl.deleted": "an engine deletes by rules of its own",
    "cold_start.x86_64": "an engine runs functions with this machine's Python",
    "cold_start.arm64": "an engine runs functions with this machine's Python",
    "cold_start.compiled": "an engine runs functions with this machine's Python",
    "cold_start.times": "an engine's processes are not Lambda's",
}
