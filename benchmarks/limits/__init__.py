"""Requests, modules and instructions of a lock, checked against limits: what does not depend on the machine's load."""
