"""Which argument a name in a template means, for every kind of callable and every way to call it.

What is right is what Python says: the signature of what is called, bound to the call.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import wrapt

from lambda_lock import KeyTemplateError, current_lock, deduplicate, payload_hash, rate_limit, with_lock
from lambda_lock.keys.compile import compile_key, compile_keys
from lambda_lock.keys.parameters import MISSING, Parameters, Unusable
from tests.support.context import Context

Function = Callable[..., Any]


# What is called


def plain(account: Any, amount: Any = 0) -> None: ...
async def awaited(account: Any, amount: Any = 0) -> None: ...
def positional_only(account: Any, amount: Any = 0, /, **options: Any) -> None: ...
def keyword_only(*, account: Any, amount: Any = 0) -> None: ...
def mixed(account: Any, *rest: Any, amount: Any = 0, **options: Any) -> None: ...
def session_first(session: Any, account: Any, amount: Any = 0) -> None: ...
def currency_first(currency: Any, account: Any, amount: Any = 0) -> None: ...


def passing(function: Function) -> Function:
    """A decorator that passes on everything."""
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


def passing_self(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return wrapper


def with_session(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(account: Any, amount: Any = 0) -> Any:
        return function("a session", account, amount)

    return wrapper


def awaited_with_session(function: Function) -> Function:
    @functools.wraps(function)
    async def wrapper(account: Any, amount: Any = 0) -> Any:
        return await function("a session", account, amount)

    return wrapper


def swapped(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(amount: Any, *, account: Any = "nobody") -> Any:
        return function(account, amount)

    return wrapper


def some_named(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(account: Any, *args: Any, **kwargs: Any) -> Any:
        return function("a session", account, *args, **kwargs)

    return wrapper


def declared(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function("a session", *args, **kwargs)

    wrapper.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    return wrapper


@wrapt.decorator
def proxied(wrapped: Function, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


class Deco:
    """A decorator that is a class."""

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Till:
    def pay(self, account: Any, amount: Any = 0) -> None: ...

    @classmethod
    def of_class(cls, account: Any, amount: Any = 0) -> None: ...

    @staticmethod
    def of_none(account: Any, amount: Any = 0) -> None: ...

    @passing
    def passed(self, account: Any, amount: Any = 0) -> None: ...

    @passing_self
    def passed_self(self, account: Any, amount: Any = 0) -> None: ...

    @proxied
    def proxied(self, account: Any, amount: Any = 0) -> None: ...

    async def awaited(self, account: Any, amount: Any = 0) -> None: ...

    @passing
    def __call__(self, account: Any, amount: Any = 0) -> None: ...

    def in_currency(self, currency: Any, account: Any, amount: Any = 0) -> None: ...

    in_euros = functools.partialmethod(in_currency, "EUR")
    of_one = functools.partialmethod(in_currency, amount=7)


TILL: Any = Till()
COPIED: Any = with_session(session_first)
COPIED.__signature__ = inspect.signature(session_first)  # as wraps() copies it
UPDATED: Any = functools.update_wrapper(functools.partial(currency_first, "EUR"), currency_first)

#: What is called; the callable whose signature counts, if it is another one; and what is bound by position.
SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "function": (plain, None, {}),
    "async function": (awaited, None, {}),
    "positional only": (positional_only, None, {}),
    "keyword only": (keyword_only, None, {}),
    "starred": (mixed, None, {}),
    "unbound method": (Till.pay, None, {}),
    "bound method": (TILL.pay, None, {}),
    "bound async method": (TILL.awaited, None, {}),
    "class method": (Till.of_class, None, {}),
    "static method": (Till.of_none, None, {}),
    "static method, as an object": (vars(Till)["of_none"], plain, {}),
    "decorated bound method": (TILL.passed, TILL.pay, {}),
    "decorated unbound method": (Till.passed, Till.pay, {}),
    "decorated bound method, self named": (TILL.passed_self, TILL.pay, {}),
    "decorated unbound method, self named": (Till.passed_self, Till.pay, {}),
    "bound method of a proxy": (TILL.proxied, TILL.pay, {}),
    "decorated bound method, decorated again": (passing(TILL.passed), TILL.pay, {}),
    "object": (TILL, TILL.pay, {}),
    "partial of a position": (functools.partial(currency_first, "EUR"), plain, {"currency": "EUR"}),
    "partial of a keyword": (functools.partial(currency_first, amount=7), None, {}),
    "partial of the middle": (functools.partial(currency_first, account="Z"), None, {}),
    "partial of a partial": (functools.partial(UPDATED, "A"), None, {"currency": "EUR", "account": "A"}),
    "partial with __wrapped__": (UPDATED, plain, {"currency": "EUR"}),
    "partial of a method": (functools.partial(TILL.in_currency, "EUR"), None, {"currency": "EUR"}),
    "partial of a decorated method": (functools.partial(Till.passed, TILL), TILL.pay, {}),
    "partial of an object": (functools.partial(TILL, "A"), functools.partial(TILL.pay, "A"), {"account": "A"}),
    "partial of more than is named": (functools.partial(mixed, "A", "b"), None, {"account": "A"}),
    "partial of other keywords": (functools.partial(mixed, tenant="t"), None, {}),
    "decorated partial": (passing(functools.partial(currency_first, "EUR")), plain, {"currency": "EUR"}),
    "partial of a decorated function": (functools.partial(passing(currency_first), "EUR"), plain, {"currency": "EUR"}),
    "partial of a named wrapper": (functools.partial(COPIED, "A"), functools.partial(plain, "A"), {"account": "A"}),
    "partial method": (TILL.in_euros, TILL.pay, {"currency": "EUR"}),
    "partial method of the class": (Till.in_euros, Till.pay, {"currency": "EUR"}),
    "partial method of a keyword": (TILL.of_one, functools.partial(TILL.in_currency, amount=7), {}),
    "decorated partial method": (passing(Till.in_euros), Till.pay, {"currency": "EUR"}),
    "decorated": (passing(plain), plain, {}),
    "decorated twice": (passing(passing(plain)), plain, {}),
    "decorated, keyword only": (passing(keyword_only), keyword_only, {}),
    "decorated, starred": (passing(mixed), mixed, {}),
    "proxy": (proxied(plain), plain, {}),
    "proxy of a named wrapper": (proxied(with_session(session_first)), plain, {}),
    "cached": (functools.lru_cache(plain), plain, {}),
    "single dispatch": (functools.singledispatch(plain), plain, {}),
    "class as a decorator": (Deco(plain), plain, {}),
    "class as a decorator of a named wrapper": (Deco(with_session(session_first)), plain, {}),
    "named wrapper": (with_session(session_first), plain, {}),
    "async named wrapper": (awaited_with_session(session_first), plain, {}),
    "named wrapper, decorated": (passing(with_session(session_first)), plain, {}),
    "named wrapper of a decorated function": (with_session(passing(session_first)), plain, {}),
    "two named wrappers": (swapped(with_session(session_first)), swapped(plain), {}),
    "keyword-only wrapper": (swapped(plain), swapped(plain), {}),
    "wrapper with some names": (some_named(session_first), some_named(plain), {}),
    "named wrapper with a copied __signature__": (COPIED, plain, {}),
    "that, decorated": (passing(COPIED), plain, {}),
    "wrapper with a declared __signature__": (declared(session_first), plain, {}),
    "that, decorated again": (passing(declared(session_first)), plain, {}),
    "specified mock": (mock.create_autospec(plain), plain, {}),
    "locked": (with_lock("k")(plain), plain, {}),
    "locked, limited and deduplicated": (deduplicate("k")(with_lock("k")(rate_limit("k", 1)(plain))), plain, {}),
    "locked named wrapper": (with_lock("k")(with_session(session_first)), plain, {}),
}
VALUES = ("A", "B", "C", "D")
NAMES = ("account", "amount", "currency", "session", "rest", "options", "tenant")


def calls() -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Up to four arguments by position, and any of the names."""
    for count in range(5):
        for size in range(4):
            for names in itertools.combinations(("account", "amount", "currency", "tenant"), size):
                yield VALUES[:count], {name: f"{name} by name" for name in names}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_name_is_the_argument_to_which_python_binds_it(shape):
    called, counts, bound = SHAPES[shape]
    signature, parameters = inspect.signature(counts or called, follow_wrapped=False), Parameters(called)
    tried = 0
    for args, kwargs in calls():
        try:
            expected = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        expected.apply_defaults()
        tried += 1
        for name, value in {**expected.arguments, **bound}.items():
            found = parameters.argument(name, args, kwargs)
            if name == "rest":  # inspect does not show what a partial has bound beyond the names
                value = (*getattr(called, "args", ())[1:], *value)
            if name == "options":
                value = {"tenant": "t", **value} if shape == "partial of other keywords" else value
            assert found == value, (name, args, kwargs)
    assert tried
    assert set(signature.parameters) | set(bound) <= parameters.names


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_argument_is_the_first_that_a_call_has_after_self(shape):
    called, counts, _ = SHAPES[shape]
    signature, parameters = inspect.signature(counts or called, follow_wrapped=False), Parameters(called)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [one.name for one in signature.parameters.values() if one.kind in kinds]
    has_self = names[:1] == ["self"]
    assert parameters.first == next(iter(names[has_self:]), "rest" if "rest" in signature.parameters else None)
    if names[has_self:]:
        assert parameters.argument(None, VALUES[: 1 + has_self], {}) == VALUES[has_self]


# The issue's own cases


def test_below_a_wrapper_with_names_of_its_own_the_key_is_of_the_call():
    called = with_session(session_first)
    assert compile_key(called, "account#{account}", None)(("A", 5), {}) == "account#A"
    assert compile_keys(called, ["a#{account}", "b#{amount}"])(("A", 5), {}) == ("a#A", "b#5")
    assert compile_key(called, payload_hash("account"), None)(("A", 5), {}) == payload_hash("account")({"account": "A"})
    assert compile_key(called, "{id}", None)(({"id": "e-1"}, 5), {}) == "e-1"
    assert compile_key(called, None, "id")(({"id": "e-1"}, 5), {}) == "e-1"


@pytest.mark.parametrize(
    "called",
    [with_session(session_first), passing(with_session(session_first)), some_named(session_first), COPIED,
     declared(session_first), functools.partial(with_session(session_first), "A"), Deco(with_session(session_first))],
)  # fmt: skip
@pytest.mark.parametrize("key", ["{session}", payload_hash("session"), "{account}#{session[id]}"])
def test_a_name_that_only_the_inner_function_has_is_refused_when_decorating(called, key):
    with pytest.raises(KeyTemplateError, match=r"names a parameter of session_first\(\), but .*Write this decorator"):
        with_lock(key)(called)


def test_a_name_that_is_passed_on_behind_the_names_of_a_wrapper_is_refused():
    @some_named
    def pay(session: Any, account: Any, amount: Any = 0) -> None: ...

    assert compile_key(pay, "{account}", None)(("A", 5), {}) == "A"
    with pytest.raises(KeyTemplateError, match=r"as \(account, \*args, \*\*kwargs\), and nobody can tell"):
        with_lock("{amount}")(pay)


def test_a_wrapper_without_parameters_has_no_names_of_what_it_wraps():
    with pytest.raises(KeyTemplateError, match="Write this decorator below that one"):
        with_lock("{amount}")(functools.wraps(plain)(lambda: None))


def adding(function: Function) -> Function:
    return functools.wraps(function)(lambda *args, **kwargs: function("a session", *args, **kwargs))


def test_where_a_call_does_not_fit_what_is_wrapped_no_argument_is_told_by_its_position():
    @adding
    def pay(session: Any, account: Any, amount: Any) -> None: ...

    build = compile_key(pay, "{account}", None)
    for args, kwargs in ((("A", 5), {}), (("A",), {"amount": 5}), (("A", 5, 6, 7), {})):
        with pytest.raises(KeyTemplateError, match=r"does not fit .*pay\(\), so a decorator in between adds"):
            build(args, kwargs)
    assert build((), {"account": "A", "amount": 5}) == "A"
    assert compile_key(pay, "{id}", None)(({"id": "e-1"}, 5), {}) == "e-1"  # the first argument of the call is known


def test_what_mock_appends_is_never_taken_for_an_argument():
    @mock.patch("os.getcwd")
    def job(order: Any, mocked: Any = None) -> None: ...

    @mock.patch("os.getcwd")
    @mock.patch("os.getpid")
    def strict(order: Any, pid: Any, cwd: Any) -> None: ...

    assert compile_key(job, "{order}", None)(("A",), {}) == "A"
    assert compile_key(strict, "{order}", None)((), {"order": "A"}) == "A"
    for called, key in ((job, "{mocked}"), (strict, "{pid}"), (strict, "{order}")):
        with pytest.raises(KeyTemplateError):
            compile_key(called, key, None)(("A",), {})


def test_a_self_that_a_wrapper_does_not_name_is_not_the_first_argument():
    called: Any = functools.wraps(Till.pay)(lambda instance, *args, **kwargs: Till.pay(instance, *args, **kwargs))
    with pytest.raises(KeyTemplateError, match="or none that is surely the first"):
        with_lock("{id}")(called)
    assert Parameters(called.__get__(TILL)).first == "args"


def test_the_names_of_a_singledispatchmethod_are_refused_because_it_hides_self():
    class Registers:
        @functools.singledispatchmethod
        def pay(self, account: Any, amount: Any = 0) -> None: ...

    for called in (Registers().pay, Registers.pay):
        with pytest.raises(KeyTemplateError):
            with_lock("{account}")(called)


def test_a_circle_of_wrappers_is_an_error():
    def one(*args: Any) -> None: ...

    one.__wrapped__ = one  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="or its __wrapped__ leads in a circle"):
        with_lock("{id}")(one)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python has functools.Placeholder since 3.14")
def test_a_placeholder_of_a_partial_is_filled_by_the_call():
    called = functools.partial(currency_first, functools.Placeholder, "A")  # type: ignore[attr-defined]
    parameters = Parameters(called)
    assert [parameters.argument(name, ("EUR", 5), {}) for name in ("currency", "account", "amount")] == ["EUR", "A", 5]
    assert parameters.argument("currency", (), {}) is MISSING


def test_a_context_that_a_partial_has_bound_is_the_calls_context(table):
    lease = functools.partial(lambda event, context: current_lock().lease_duration, context=Context(7))
    assert with_lock("{id}")(lease)({"id": "a"}) < 8


def test_what_does_not_fit_says_so_to_those_who_ask_for_the_first():
    with pytest.raises(Unusable):
        Parameters(passing(lambda self, event: None)).argument("event", (TILL, 1, 2), {})
