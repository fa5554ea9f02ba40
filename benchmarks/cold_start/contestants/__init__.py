"""What is measured: each module, run as a script in a fresh process, ends in the body of its first lock."""
