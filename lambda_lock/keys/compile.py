"""Compiles a template, a function, a JMESPath expression or a hash into the builder of a function's keys."""

from __future__ import annotations

from .arguments import builder, check_key, from_template, quoted
from .parameters import Parameters, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from .arguments import KeyBuilder, KeysBuilder

    #: The values that ``key=`` accepts: a template, a function of the call's own arguments, or payload_hash().
    Key: TypeAlias = "str | Callable[..., str] | Compiled"
    #: One of them, or a list: several locks at once.
    Keys: TypeAlias = Key | Sequence[Key]


class Compiled:
    """A key function that has to know the function's parameters in advance: payload_hash()."""

    __slots__ = ()

    def compiled(self, parameters: Parameters, function: str) -> KeyBuilder:
        """The builder of the keys of ``function``. Raises KeyTemplateError for a path that cannot be read."""
        raise NotImplementedError


def compile_key(func: Callable[..., Any], key: Key | None, key_jmespath: str | None) -> KeyBuilder:
    """The builder of ``func``'s keys, from exactly one of ``key`` and ``key_jmespath``.

    The builder raises KeyTemplateError if no key can be built from a call's arguments.

    Raises TypeError if none or both are given, if the one given has the wrong type, or if a function cannot take the
    arguments of ``func``. Raises KeyTemplateError for an error in the template or the expression, and
    LockConfigurationError if key_jmespath needs a package that is not installed.
    """
    if (key is None) == (key_jmespath is None):
        raise TypeError("pass exactly one of key= (a template or a function) and key_jmespath= (an expression)")
    function = name_of(func)
    if key_jmespath is not None:
        if not isinstance(key_jmespath, str):
            raise TypeError(f"key_jmespath= must be a str, got {type(key_jmespath).__name__}")
        from .jmespath import from_jmespath

        made_by = f"key_jmespath={quoted(key_jmespath)} of {function}()"
        return builder(made_by, from_jmespath, key_jmespath, Parameters(func))
    if isinstance(key, str):
        made_by = f"the key {quoted(key)} of {function}()"
        return builder(made_by, from_template, key, Parameters(func), made_by)
    if isinstance(key, Compiled):
        return key.compiled(Parameters(func), function)
    if not callable(key):
        raise TypeError(f"key= must be a str or a function that returns one, got {type(key).__name__}")
    if not Parameters(key, follow_wrapped=False).take_calls_of(Parameters(func, follow_wrapped=False)):
        raise TypeError(f"key= is called with the arguments of {function}(): give {name_of(key)}() the same parameters")
    make, made_by = key, f"the key function {name_of(key)}() of {function}()"
    return lambda args, kwargs: check_key(make(*args, **kwargs), made_by)


def compile_keys(func: Callable[..., Any], keys: Sequence[Key]) -> KeysBuilder:
    """The builder of several keys of ``func``, one from each of ``keys``. Raises what compile_key does."""
    if not keys:
        raise TypeError("key=[] names no lock: write at least one template or function into the list")
    builders = [compile_key(func, key, None) for key in keys]
    return lambda args, kwargs: tuple([build(args, kwargs) for build in builders])
