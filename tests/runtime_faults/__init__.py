"""Functions under the unmodified awslambdaric while their runtime fails: ``python -m tests.runtime_faults``."""
