"""The lock protocol, pure: no I/O, no clock, no thread (as h11 does it). Start reading at protocol.py."""
