"""Reads, checks, queues and writes documents that arrive over HTTP."""
