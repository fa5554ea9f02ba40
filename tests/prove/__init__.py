"""All proofs of exclusion, one after the other: ``python -m tests.prove``."""
