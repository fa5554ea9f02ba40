"""The cost of a lock in a cold start, compared with other libraries: CPU time from process start to the first lock."""
