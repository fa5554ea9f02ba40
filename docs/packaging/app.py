from lambda_lock import with_lock


@with_lock("order#{id}")
def handler(event, context):
    return f"order {event['id']} is mine"
