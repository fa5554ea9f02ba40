"""`make demo`: Lambda environments that contend for locks, watched through the lock table's own stream."""
