"""Kinds of remote arms; a new one is a file here, and a line in `service/arms/registry.py`."""
