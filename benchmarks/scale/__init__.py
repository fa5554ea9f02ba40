"""Locks at the scale of an account, by simulation: one hot key, a million keys, and the end of an outage."""
