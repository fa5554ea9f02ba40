"""Instructions that a lock takes: a warm cycle, INIT, and the first invocation. They can be counted exactly."""
