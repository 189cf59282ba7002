"""A result's objects as the user's rows: names, types, text and JSON."""
