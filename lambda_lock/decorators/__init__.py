"""Decorators of handlers and functions. All modules are private: the public names are exported by `lambda_lock`.

`with_lock`, `deduplicate` and `rate_limit` are kinds of `guard`. `disabled` is loaded while locks are disabled,
`returned` for results that are stored or asked about, and `types` by type checkers only.

The modules have a folder of their own because a module ``lambda_lock.with_lock`` would replace the function of that
name in the package as soon as it is imported.
"""
