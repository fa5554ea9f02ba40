"""Executions that sleep until a lock is free, beside executions that poll, in virtual time."""
