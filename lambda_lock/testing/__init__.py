"""Tools for testing functions that lock: a DynamoDB in memory, a clock that you move by hand, and a Lambda context.

    from lambda_lock.testing import in_memory, lambda_context

    def test_the_order_is_charged():
        with in_memory():
            assert handler(event, lambda_context()) == "charged"

The locks are the real ones, but AWS, the network and environment variables are not needed. Functions that run in Lambda
do not load anything from here.
"""

from .context import ManualClock, lambda_context
from .memory import in_memory

__all__ = ["ManualClock", "in_memory", "lambda_context"]
