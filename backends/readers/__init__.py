"""Files of every kind to titles, blocks of text and metadata, in a process with limits."""
