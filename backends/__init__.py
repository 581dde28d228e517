"""The index, and the retrievers that rank the passages of one of its versions."""

import os

os.environ.setdefault("LANCE_LOG", "error")  # it warns of every empty list of a small index
