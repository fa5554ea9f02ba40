"""What a warm acquire and release takes beside the thinnest honest clients, which send the same two requests."""
