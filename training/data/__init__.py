"""Judged questions, and what every arm returned for them."""
