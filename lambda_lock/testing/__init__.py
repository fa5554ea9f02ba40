"""For tests of functions that lock: a DynamoDB in memory, a clock that is moved by hand, and a Lambda context.

    from lambda_lock.testing import in_memory, lambda_context

    def test_the_order_is_charged():
        with in_memory():
            assert handler(event, lambda_context()) == "charged"

No AWS, no network and no environment are needed; the locks are the real ones. Nothing here is loaded by what runs in
Lambda.
"""

from .active import in_memory
from .clock import ManualClock
from .context import lambda_context

__all__ = ["ManualClock", "in_memory", "lambda_context"]
