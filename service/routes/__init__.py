"""Addresses, one file for each group of them."""
