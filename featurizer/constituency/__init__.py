"""Constituency trees: the parser that builds them, and the production units counted in them."""
