"""What the stream of the table passes on to the waker. It imports nothing: templates are made from it."""

_EXISTS = [{"exists": True}]

#: Filter patterns of the stream's event source mapping. A record that matches any of them causes a look at one key:
#: somebody has lain down; a lock on which somebody sleeps is free; a semaphore on which somebody sleeps was written: a
#: pattern cannot see which of its writes frees a permit.
FILTERS = [
    {"dynamodb": {"NewImage": {"newest": {"S": _EXISTS}}}},
    {"dynamodb": {"NewImage": {"sleepers": {"N": _EXISTS}, "isReleased": {"S": ["1"]}}}},
    {"dynamodb": {"NewImage": {"sleepers": {"N": _EXISTS}, "ownerName": {"S": ["semaphore"]}}}},
]
