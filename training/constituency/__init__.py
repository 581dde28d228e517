"""Training of the compact constituency model that ships in `models/`."""
