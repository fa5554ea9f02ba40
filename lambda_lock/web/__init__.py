"""Web applications: the Lambda context of each request, and an API's whole answer once.

    app.add_middleware(LambdaContextMiddleware)     # FastAPI, Starlette and other ASGI applications
    app.wsgi_app = LambdaContextWsgi(app.wsgi_app)  # Flask and other WSGI applications
    app.add_middleware(IdempotencyMiddleware)       # the header Idempotency-Key; IdempotencyWsgi(app.wsgi_app)

Names load on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .asgi import IdempotencyMiddleware
    from .context import LambdaContextMiddleware, LambdaContextWsgi
    from .events import idempotent_request
    from .wsgi import IdempotencyWsgi

__all__ = [
    "IdempotencyMiddleware",
    "IdempotencyWsgi",
    "LambdaContextMiddleware",
    "LambdaContextWsgi",
    "idempotent_request",
]
_WHERE = {"IdempotencyMiddleware": "asgi", "IdempotencyWsgi": "wsgi", "idempotent_request": "events"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(__import__(f"{__name__}.{_WHERE.get(name, 'context')}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
