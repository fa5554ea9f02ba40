"""What requests cost."""

from __future__ import annotations

# Dollars for a million request units, on demand, Standard table class, us-east-1, as of 1 November 2024. Source:
# https://aws.amazon.com/dynamodb/pricing/on-demand/. A unit is a write of up to 1 KB, also a refused one, or a
# consistent read of up to 4 KB. Throttled requests are free.
DATE = "1 November 2024"
WRITE, READ = 0.625, 0.125


def dollars(reads: float, writes: float) -> float:
    return (reads * READ + writes * WRITE) / 1e6
