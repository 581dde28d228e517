"""Models of requests and replies, with limits on the fields and examples that tests send."""
