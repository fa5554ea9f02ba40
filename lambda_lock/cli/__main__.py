"""``python -m lambda_lock.cli``: the same as the command `lambda-lock`."""

from . import main

if __name__ == "__main__":
    main()
