"""Decorators of handlers and functions. Private throughout: their public names are those of `lambda_lock`.

`with_lock` and `deduplicate` are two kinds of `guard`, which stands on `call`. `disabled` is loaded while locks are
disabled, and `types` by type checkers only.

A folder of their own: a module ``lambda_lock.with_lock`` would take the function's place in the package as soon as it
is imported.
"""
