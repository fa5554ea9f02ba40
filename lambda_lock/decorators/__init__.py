"""Decorators of handlers and functions, and what they share. Their public names are those of `lambda_lock`.

A folder of their own: a module ``lambda_lock.with_lock`` would take the function's place in the package as soon as it
is imported.
"""
