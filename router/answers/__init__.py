"""Answers from passages without a language model, and the context shown to one."""
