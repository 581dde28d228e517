"""What requests and replies look like: limits on every field, and examples that tests send."""
