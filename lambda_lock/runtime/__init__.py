"""What the core must not know: clocks, threads, forks, and the Lambda runtime. Private."""
