"""Remote arms: search services of others that stand beside our own arms."""
