"""Functions of which two calls may differ: known to the binder by name, to stages by effect."""

from __future__ import annotations

#: The pinned engine's functions of stability VOLATILE (a unit test compares): two calls may differ.
VOLATILE_FUNCTIONS = frozenset(
    {
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_transaction_id",
        "currval",
        "error",
        "gen_random_uuid",
        "nextval",
        "random",
        "setseed",
        "setval",
        "sleep_ms",
        "stats",
        "uuid",
        "uuidv4",
        "uuidv7",
        "vector_type",
        "write_log",
    }
)
