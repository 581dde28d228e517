"""The tables of features; each row defines a feature."""
