"""Real parts, started on this machine: a DynamoDB, a faulty network in front of it, Lambda environments, sample events.

Tests, demo and benchmarks run against them. Nothing of this is shipped.
"""
