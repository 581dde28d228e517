"""Text analysis: one parse and one encoder call per text, shared by every layer above."""
