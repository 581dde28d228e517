"""The dataset as the engine: Lance's own indices find the rows that one question needs."""
