"""Which retriever answers a question, how lists are fused, and the one place that runs them."""
