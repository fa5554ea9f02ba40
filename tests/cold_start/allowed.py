"""What the first lock may load on top of what awslambdaric has loaded, and why.

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
    "ssl": "every real endpoint: 3.3 ms",
    "_ssl": "ssl",
    "base64": "ssl imports it",
    "struct": "base64 imports it",
    "_struct": "struct",
}

#: Of each package, the modules. What each is for says its docstring, and the map in CONTRIBUTING.md.
_MODULES = {
    "client": "asking base checks held lock lock_client options renewer session settings taking",
    "core": "acquire keep lease outcome protocol requests row schema",
    "decorators": "functions guard with_lock",
    "errors": "",
    "keys": "arguments compile parameters",
    "observe": "log observer",
    "runtime": "drive first_use invocation signalsafe timeline",
    "transport": "answers choice credentials endpoint http1 https",
}
PACKAGE = {"lambda_lock", *(f"lambda_lock.{package}" for package in _MODULES)}
PACKAGE |= {f"lambda_lock.{package}.{name}" for package, names in _MODULES.items() for name in names.split()}
