"""What a training run tells: its report, the card of its router, tables for the terminal."""
