"""A deployable app: the lock table, and functions behind queues, a rule and a schedule that lock with it.

It is not in the wheel. docs/infra.md says how it is deployed, into an account and onto this machine.
"""
