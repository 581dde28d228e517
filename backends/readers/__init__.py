"""Readers of files of many kinds: title, blocks of text and metadata, in a process with limits."""
