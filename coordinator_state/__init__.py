"""The coordinator's memory: records, legal moves, and the stores that keep them."""
