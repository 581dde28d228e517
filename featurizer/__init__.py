"""Text to analysis: one parse and one encoder call for each text, shared by everything above."""
