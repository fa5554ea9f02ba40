"""Faults at every point of the drivers: interrupts, signal handlers, forks and cancellations."""
