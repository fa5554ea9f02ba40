"""How large the library is, and how much of it one call of a decorated function runs through."""
