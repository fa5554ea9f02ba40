"""What an error tells the caller to do, in the caller's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import deduplicate, rate_limit, with_lock
from lambda_lock.testing import in_memory
from lambda_lock.web import LambdaContextMiddleware, LambdaContextWsgi


def test_the_seconds_of_a_rate_are_passed_by_name() -> None:
    limit: Any = rate_limit
    with pytest.raises(TypeError, match=r"takes per= by its name: write rate_limit\('api', 10, per=60\)"):
        limit("api", 10, 60)


def test_a_decorated_lock_has_no_holder() -> None:
    options: Any = {"holder": "execution-1"}
    with pytest.raises(TypeError, match=r"'holder': the lock ends with the call\. .*client\.acquire\(key, holder"):
        with_lock("a", **options)
    with pytest.raises(TypeError, match=r"'holder': the lock ends with the call"):
        deduplicate("a", **options)


def test_a_generator_under_a_rate_limit_has_no_lock_to_release() -> None:
    def pages(account: str) -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match=r"where the limit does not see it\. Decorate the function that consumes it"):
        rate_limit("{account}", 10)(pages)
    with pytest.raises(TypeError, match=r"after the lock's release\. Decorate the function"):
        with_lock("{account}")(pages)


class Orders:
    @deduplicate("{order}")
    def charge(self, order: str, customer: str = "") -> str:
        return order


def test_forget_of_a_method_is_given_its_object() -> None:
    orders: Any = Orders()
    with in_memory():
        orders.charge("o-1", "c-1")
        with pytest.raises(TypeError, match=r"write Orders\.charge\.forget\(object, \.\.\.\)"):
            orders.charge.forget("o-1", "c-1")
        assert Orders.charge.forget(orders, "o-1", "c-1")


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    return []


async def asgi(scope: Any, receive: Any, send: Any) -> None: ...


class Wsgi:
    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        return []


class Asgi:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize("app", [wsgi, Wsgi(), Wsgi().__call__])
def test_a_wsgi_application_is_not_wrapped_for_asgi(app: Any) -> None:
    with pytest.raises(TypeError, match=r"app is a WSGI application, .*: wrap it in LambdaContextWsgi"):
        LambdaContextMiddleware(app)
    LambdaContextWsgi(app)


@pytest.mark.parametrize("app", [asgi, Asgi(), Asgi().__call__])
def test_an_asgi_application_is_not_wrapped_for_wsgi(app: Any) -> None:
    with pytest.raises(TypeError, match=r"app is an ASGI application, .*: wrap it in LambdaContextMiddleware"):
        LambdaContextWsgi(app)
    LambdaContextMiddleware(app)


def test_an_application_that_takes_anything_is_taken_by_both() -> None:
    LambdaContextWsgi(lambda *_: [])
    LambdaContextMiddleware(lambda *_: asgi(*_))
