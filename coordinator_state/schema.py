"""Names of the state table: keys, attributes, index, TTL, limits. Constants and key formats only.

The infrastructure imports this module and nothing else, so the table and the code cannot drift.
A query's items are spread over several partition keys, because each takes about 1,000 writes and
3,000 reads a second:

    Q#<query>                    Q             the query
    Q#<query>                    S#<stage>     one item per stage
    Q#<query>                    L#<kind>#...  the ledger
    T#<query>#<stage>#<bucket>   <index>       tasks, ``TASKS_PER_BUCKET`` to a bucket
    W#<query>                    <worker>      workers
    POOL                         <queue>       queues of the pool that are in use
    K#<token>                    K             what a client's token stands for
    TABLES                       <name>        tables that statements write
"""

from __future__ import annotations

PARTITION_KEY = "pk"
SORT_KEY = "sk"
KEY_TYPE = "S"

#: Seconds since the epoch; set by ``close_query`` on the query item, never before.
TTL_ATTRIBUTE = "expires_at"

#: Sparse index of query items by ``LISTING_ATTRIBUTE``, sorted by query id, so by age.
#: It projects keys and the status only: turns rewrite the query item often and must not pay twice.
QUERY_INDEX = "queries"
LISTING_ATTRIBUTE = "listing"
LISTING_SORT_ATTRIBUTE = "query_id"
QUERY_INDEX_PROJECTION = ("status",)
LISTING_DRAFT = "DRAFT"  # being written by ``create_query``; invisible to every other verb
LISTING_OPEN = "OPEN"
LISTING_CLOSED = "CLOSED"  # not purged yet
LISTING_PURGED = "PURGED"

QUERY_SORT = "Q"
STAGE_PREFIX = "S#"
LEDGER_PREFIX = "L#"

#: Tasks whose items share a partition key: a page of less than 1 MB, and few reads per stage.
TASKS_PER_BUCKET = 256

#: Longer texts are cut, with an ellipsis; the whole statement is in the plan object.
MAX_SQL_CHARS = 2_000
MAX_ERROR_CHARS = 2_000
#: Result keys kept in the query item; a longer manifest is an object (``result_key``).
MAX_RESULT_KEYS = 200


def query_partition(query_id: str) -> str:
    """Partition of the query, its stages and its ledger."""
    return f"Q#{query_id}"


def stage_sort(stage: int) -> str:
    return f"{STAGE_PREFIX}{stage:05d}"


def ledger_sort(kind: str, name: str) -> str:
    return f"{LEDGER_PREFIX}{kind}#{name}"


def task_partition(query_id: str, stage: int, index: int) -> str:
    """Partition of one task; ``index // TASKS_PER_BUCKET`` is its bucket."""
    return f"T#{query_id}#{stage:05d}#{index // TASKS_PER_BUCKET:04d}"


def task_sort(index: int) -> str:
    return f"{index:07d}"


def worker_partition(query_id: str) -> str:
    return f"W#{query_id}"


#: Partition of all queue leases: they are read together, and are small and few.
POOL_PARTITION = "POOL"
TOKEN_SORT = "K"
#: Partition of all written tables: every statement's planning reads them together.
TABLES_PARTITION = "TABLES"


def token_partition(token: str) -> str:
    return f"K#{token}"
