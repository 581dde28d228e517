"""Constituency trees: the parser that builds them, and the units that are counted in them."""
