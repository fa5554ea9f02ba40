"""`make verify-aws`: whether an account of AWS behaves as the library assumes.

docs/verified.md is the page about it.
"""
