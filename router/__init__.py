"""Chooses the route of a question, runs the arms and fuses their rankings."""
