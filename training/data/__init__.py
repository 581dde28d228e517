"""Judged questions, and what every arm said to them."""
