"""The Tri-Graph of passages, sentences and entities, and the walk on it."""
