"""The lock protocol as pure logic, in the style of h11: no I/O, no clocks, no threads. Start reading at protocol.py."""
