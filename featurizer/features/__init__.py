"""The tables of features; a feature is one row of one of them."""
