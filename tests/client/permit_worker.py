"""A process that takes permits again and again, and counts by files who is inside. Arguments: folder, N, rounds."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lambda_lock import LockClient


def main(folder: Path, permits: int, rounds: int) -> None:
    most = 0
    with LockClient() as client:
        for _ in range(rounds):
            with client.acquire("api", permits=permits, wait=120):
                mine = folder / str(os.getpid())
                mine.touch()
                most = max(most, len(os.listdir(folder)))
                time.sleep(0.02)
                most = max(most, len(os.listdir(folder)))
                mine.unlink()
    print(most)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
