"""The contestants. Each module is run as a script in a fresh process, and ends in the body of its first lock."""
