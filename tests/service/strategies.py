"""Anything that JSON can say."""

from hypothesis import strategies as st

# Lone surrogates too: JSON can say them, and no encoder can write them.
ANY = st.text(st.characters(exclude_categories=[]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=8,
)
