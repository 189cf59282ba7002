"""Statements that write: what attempts leave behind, and the one step that makes it count."""
