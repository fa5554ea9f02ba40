"""What a lock costs a cold start: CPU time from a process's start to its first lock held, beside other libraries."""
