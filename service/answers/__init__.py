"""Answers from passages, with or without a language model."""
