"""What each operation of a lock, a semaphore and several keys is charged."""
