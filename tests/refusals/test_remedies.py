"""What an error tells the caller to do, in the caller's words."""

from collections.abc import Iterator
from typing import Any

import pytest

from lambda_lock import LockClient, LockLostError, deduplicate, rate_limit, with_lock
from lambda_lock.batch import sqs_batch
from lambda_lock.testing import in_memory
from lambda_lock.web import LambdaContextMiddleware, LambdaContextWsgi


def test_the_seconds_of_a_clients_rate_are_passed_by_name():
    client: Any = LockClient("locks")
    with pytest.raises(TypeError, match=r"takes per= by its name: write rate_limit\('api', 10, per=60\)"):
        client.rate_limit("api", 10, 60)


def test_a_generator_under_a_rate_limit_has_no_lock_to_release():
    def pages(account: str) -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match=r"where the limit does not see it\. Decorate the function that consumes it"):
        rate_limit("{account}", 10)(pages)
    with pytest.raises(TypeError, match=r"after the lock's release\. Decorate the function"):
        with_lock("{account}")(pages)


def work(self: Any, order: str) -> str:
    return order


class Orders:
    @deduplicate("{order}")
    def __charge(self, order: str) -> str:
        return order

    renamed = deduplicate("{order}")(work)

    def both(self, order: str) -> tuple[str | None, str | None]:
        return self.__charge(order), self.renamed(order)


@pytest.mark.parametrize(("name", "called"), [("_Orders__charge", r"Orders\.__charge"), ("renamed", "work")])
def test_forget_of_a_method_by_any_name_is_given_its_object(name, called):
    orders: Any = Orders()
    with in_memory():
        assert orders.both("o-1") == ("o-1", "o-1")
        with pytest.raises(TypeError, match=rf"write {called}\.forget\(object, \.\.\.\)"):
            getattr(orders, name).forget("o-1")
        assert getattr(orders, name).forget(orders, "o-1")


def test_a_permit_that_is_lost_is_told_as_a_permit_of_its_semaphore():
    with in_memory(), LockClient("locks") as client:
        permit, other = (client.acquire("printers", permits=2, lease_duration=60) for _ in range(2))
        string = permit.hand_over()
        client.resume(string).release()
        with pytest.raises(LockLostError) as told:
            client.adopt(string)
        assert str(told.value).startswith(
            "the permit of semaphore 'printers' is no longer ours: the row has it no more. It was released, "
        )
        assert other.release()


class Task:
    """As the class of all of Celery's tasks is, as far as decorators see it."""

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    def run(self, *args: Any) -> Any: ...

    def delay(self, *args: Any) -> Any: ...


Task.__module__ = "celery.app.task"


def a_task(of: Any) -> Any:
    """A task of this function, as Celery makes one: its class belongs to the function's module."""
    return type("pay", (Task,), {"run": staticmethod(of), "__wrapped__": of, "__module__": __name__})()


def test_a_task_of_celery_is_decorated_below_the_decorator_that_makes_it():
    with in_memory(), LockClient("locks") as client:
        decorators: list[Any] = [with_lock("{order}", client=client), deduplicate("{order}"), rate_limit("{order}", 9)]
        for decorator in (*decorators, sqs_batch()):
            with pytest.raises(TypeError, match=r"a task of Celery: .* below the decorator that makes the task"):
                decorator(a_task(lambda order: "paid"))
        for decorator in decorators:
            assert a_task(decorator(lambda order: "paid"))(f"o-{decorators.index(decorator)}") == "paid"


class Wsgi:
    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        return []


class Asgi:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


async def asgi(scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize("app", [lambda environ, start_response: [], Wsgi(), Wsgi().__call__])
def test_a_wsgi_application_is_not_wrapped_for_asgi(app):
    with pytest.raises(TypeError, match=r"app is a WSGI application, .*: wrap it in LambdaContextWsgi"):
        LambdaContextMiddleware(app)
    LambdaContextWsgi(app)


@pytest.mark.parametrize("app", [asgi, Asgi(), Asgi().__call__])
def test_an_asgi_application_is_not_wrapped_for_wsgi(app):
    with pytest.raises(TypeError, match=r"app is an ASGI application, .*: wrap it in LambdaContextMiddleware"):
        LambdaContextWsgi(app)
    LambdaContextMiddleware(app)


def test_an_application_that_takes_anything_is_taken_by_both():
    LambdaContextWsgi(lambda *_: [])
    LambdaContextMiddleware(lambda *_: asgi(*_))
