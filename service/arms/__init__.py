"""Remote arms: other search services that take part in a search beside our own arms."""
