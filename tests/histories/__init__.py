"""Histories of the whole stack, recorded at its callers and judged by Porcupine: ``python -m tests.histories``."""
