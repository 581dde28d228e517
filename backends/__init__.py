"""The index, and the retrievers that rank the passages of one of its versions."""
