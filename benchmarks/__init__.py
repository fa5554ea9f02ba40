"""Measurements that the README quotes, each by the command that repeats it."""
