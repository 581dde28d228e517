"""Parts of published systems that no route uses."""
