"""A deployable app: the lock table, and functions behind queues, a rule and a schedule that use it.

It is not part of the wheel. docs/infra.md explains how to deploy it to an account or to this machine.
"""
