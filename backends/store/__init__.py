"""The index on disk: one Lance dataset, its versions, and what is read from it."""
