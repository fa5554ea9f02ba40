"""The logger of the package. Contention is INFO, a lost lock WARNING; ``extra`` keys begin with ``lock_``."""

from __future__ import annotations

import logging  # the Lambda runtime has it loaded before any handler

logger = logging.getLogger("lambda_lock")
logger.addHandler(logging.NullHandler())
