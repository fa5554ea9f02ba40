"""Waiting asleep, simulated: the shipped waker, executions that sleep, and callers that are awake, in true time."""
