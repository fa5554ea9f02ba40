"""The Lambda context, which Lambda passes to a handler together with the event."""


class Context:
    """A Lambda context with the given number of seconds left."""

    function_name = "orders"
    aws_request_id = "request-1"

    def __init__(self, remaining: float = 60.0) -> None:
        self.remaining = remaining

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining * 1000)
