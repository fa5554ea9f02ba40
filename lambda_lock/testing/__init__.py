"""What tests of locks need: an in-memory table that evaluates the real requests."""
