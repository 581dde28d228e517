"""A technical benchmark with hardly any named entity, built from docstrings."""
