"""Forces thread switches inside the code that drives the protocol, sweeps them, and judges what callers are told."""
