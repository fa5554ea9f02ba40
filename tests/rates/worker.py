"""A process that starts things at a rate, and writes down when. Arguments: file, limit, burst."""

import os
import sys
import time

from lambda_lock import LockClient


def main(file: str, limit: int, burst: int) -> None:
    written = os.open(file, os.O_WRONLY | os.O_APPEND)
    with LockClient() as client:
        while True:
            client.rate_limit("api", limit, burst=burst, wait=60)
            os.write(written, f"{time.time()}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
