"""Corpus to rankings: the index and the retrievers that answer from one version of it."""
