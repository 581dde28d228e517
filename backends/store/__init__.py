"""The index on disk: a Lance dataset, its versions, and how they are read."""
