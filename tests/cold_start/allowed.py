"""What the first lock may load beyond what awslambdaric has loaded, and why.

The milliseconds are CPU time where they were measured last (docs/cold-start.md), without what the module shares with
others of the list. Accelerators that CPython loads along with a module (`_socket`, `_hashlib`) stand beside it.
"""

STANDARD = {
    "binascii": "base64 of binary values, as on the wire: 0.2 ms",
    "contextvars": "which call holds which lock, by thread and task: 0.1 ms",
    "_contextvars": "contextvars",
    "errno": "socket",
    "hashlib": "the signature's SHA-256: 2.1 ms, most of it libcrypto, which TLS needs as well",
    "_blake2": "hashlib",
    "_hashlib": "hashlib: loads libcrypto",
    "hmac": "the signature: 0.2 ms",
    "select": "selectors",
    "selectors": "socket imports it: 0.5 ms",
    "socket": "the connection: 1.5 ms",
    "_socket": "socket",
    "array": "socket",
    "zlib": "the checksum of each answer: built in, or 0.2 ms",
}

TLS = {
    "lambda_lock.transport.trust": "Amazon's certificates before the system's 140: saves 16 ms",
    "ssl": "every real endpoint: 3.3 ms",
    "_ssl": "ssl",
    "base64": "ssl imports it",
    "struct": "base64 imports it",
    "_struct": "struct",
}

PACKAGE = {
    "lambda_lock": "the public names",
    "lambda_lock._version": "the User-Agent",
    "lambda_lock.attributes": "values to and from DynamoDB's JSON",
    "lambda_lock.base_client": "the settings, of plain and async clients",
    "lambda_lock.checks": "arguments in range",
    "lambda_lock.client": "LockClient",
    "lambda_lock.core": "the protocol",
    "lambda_lock.core.lease": "the protocol: time",
    "lambda_lock.core.outcome": "the protocol: what came of a request",
    "lambda_lock.core.protocol": "the protocol: its steps",
    "lambda_lock.core.requests": "the protocol: its five requests",
    "lambda_lock.core.row": "the protocol: the row",
    "lambda_lock.decorators": "the folder of the next six",
    "lambda_lock.decorators.call": "what all decorators share",
    "lambda_lock.decorators.disabled": "the kill switch is looked at in each call",
    "lambda_lock.decorators.guard": "the decorated function",
    "lambda_lock.decorators.keys": "the key's template",
    "lambda_lock.decorators.parameters": "the names a template can use",
    "lambda_lock.decorators.with_lock": "the decorator",
    "lambda_lock.drive": "sends what the protocol asks for",
    "lambda_lock.errors": "the errors that are raised and caught",
    "lambda_lock.invocation": "the deadline of this invocation",
    "lambda_lock.late": "what is loaded late, and forks",
    "lambda_lock.lock": "Lock",
    "lambda_lock.log": "the logger",
    "lambda_lock.observe": "tells the log, metrics and hooks",
    "lambda_lock.open_locks": "what close() has to release",
    "lambda_lock.record": "data and attributes of the row granted",
    "lambda_lock.signalsafe": "flags and turns that signal handlers may use",
    "lambda_lock.timeline": "the clocks",
    "lambda_lock.transport": "the seam",
    "lambda_lock.transport.choice": "that boto3 is not needed is found out here",
    "lambda_lock.transport.classify": "what an answer means",
    "lambda_lock.transport.credentials": "the keys from the environment",
    "lambda_lock.transport.dates": "DynamoDB's clock",
    "lambda_lock.transport.endpoint": "Region and host",
    "lambda_lock.transport.http1": "HTTP without http.client, which brings email: 12 ms",
    "lambda_lock.transport.https": "the transport",
    "lambda_lock.transport.sigv4": "the signature",
}
