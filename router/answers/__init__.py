"""Answers from passages without a language model, and the context that one is shown."""
