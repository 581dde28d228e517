"""The addresses: a file for each group, with its requests and replies."""
