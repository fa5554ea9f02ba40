"""What it takes to hold 1, 100 and 5,000 locks in one process: lapses, threads, CPU and memory."""
