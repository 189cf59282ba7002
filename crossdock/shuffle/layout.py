"""Names of objects and queues. No other module formats one.

========================================  ===============================================
``exchange/<h>/<query>/<stage>/<i>-<a>``  exchange object of task i, attempt a
``result/<h>/<query>/<stage>/<i>-<a>``    result of task i, attempt a
``result/<h>/<query>/manifest``           list of result keys, when long
``result/<h>/<query>/head.json``          names and types of a result read over HTTP
``result/<h>/<query>/count-<n>``          the result of a statement that wrote n rows
``data/<h>/<query>/<stage>-<i>-<a>.parquet``  rows of a table, written by task i, attempt a
``data/<h>/<query>/manifest-<c>``         what a table is since the query's commit
``staged/<h>/<query>/<stage>-<i>-<a>-<n>``  a file of a COPY, until its commit; on a disk only
``export/<h>/<query>/<form>/<n>.<form>``  part n of the result in another form, made when asked for
``plan/<h>/<query>.json``                 the stage plan
``receipt/<h>/<query>.json``              what the query used
``crossdock-<query>-<stage>-<g>-<i>``     queue of consumer task i, generation g
========================================  ===============================================

``<h>`` is a hash of the query: query ids begin with the time, and a store that limits requests by
key prefix would otherwise put all of an hour's queries into one place. All of one query stays
listable.
"""

from __future__ import annotations

import re

import xxhash

#: Every queue of the engine begins so.
QUEUE_NAMESPACE = "crossdock-"
#: Objects that only an open query may own; results and receipts outlive theirs.
OWNED_PREFIXES = ("exchange/", "plan/", "staged/")
#: Objects that stay with their query after it was closed.
KEPT_PREFIXES = ("result/", "export/", "receipt/")
#: Rows of tables: they outlive their query as long as a table has them.
DATA_PREFIX = "data/"
#: Longest queue name, and what it may be made of (SQS's rules).
MAX_QUEUE_NAME = 80
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def exchange_prefix(query_id: str) -> str:
    """Everything the query's tasks exchange."""
    return f"exchange/{_spread(query_id)}/{query_id}/"


def exchange_key(query_id: str, stage: int, index: int, attempt: int) -> str:
    """The one object this attempt may write."""
    return f"{exchange_prefix(query_id)}{stage}/{index}-{attempt}"


def result_prefix(query_id: str) -> str:
    """The query's result objects and their manifest."""
    return f"result/{_spread(query_id)}/{query_id}/"


def result_key(query_id: str, stage: int, index: int, attempt: int) -> str:
    """The result object of this attempt."""
    return f"{result_prefix(query_id)}{stage}/{index}-{attempt}"


def manifest_key(query_id: str) -> str:
    """The list of result keys, when it is too long for the query's item."""
    return f"{result_prefix(query_id)}manifest"


def head_key(query_id: str) -> str:
    """Names, types and session of a result that is read by others than its submitter."""
    return f"{result_prefix(query_id)}head.json"


def count_key(query_id: str, rows: int) -> str:
    """The one row that answers a statement that wrote ``rows`` rows."""
    return f"{result_prefix(query_id)}count-{rows}"


def data_prefix(query_id: str) -> str:
    """What the query's attempts wrote for a table, and its manifests."""
    return f"{DATA_PREFIX}{_spread(query_id)}/{query_id}/"


def data_key(query_id: str, stage: int, index: int, attempt: int) -> str:
    """The rows of a table that this attempt writes."""
    return f"{data_prefix(query_id)}{stage}-{index}-{attempt}.parquet"


def table_manifest_key(query_id: str, checksum: str) -> str:
    """Named by its content: writing it again is no error."""
    return f"{data_prefix(query_id)}manifest-{checksum}"


def staged_prefix(query_id: str) -> str:
    return f"staged/{_spread(query_id)}/{query_id}/"


def staged_key(query_id: str, stage: int, index: int, attempt: int, number: int) -> str:
    """File ``number`` of this attempt, until it is shown."""
    return f"{staged_prefix(query_id)}{stage}-{index}-{attempt}-{number}"


def export_prefix(query_id: str) -> str:
    """The query's result in other forms."""
    return f"export/{_spread(query_id)}/{query_id}/"


def export_key(query_id: str, form: str, part: int) -> str:
    """One result object in another form; the ending is what a browser saves it under."""
    return f"{export_prefix(query_id)}{form}/{part:06d}.{form}"


def plan_key(query_id: str) -> str:
    return f"plan/{_spread(query_id)}/{query_id}.json"


def receipt_key(query_id: str) -> str:
    return f"receipt/{_spread(query_id)}/{query_id}.json"


def query_of_key(key: str) -> str:
    """The query that owns an object; "" for a key that none of the functions above made."""
    parts = key.split("/")
    return parts[2].removesuffix(".json") if len(parts) > 2 else ""


def queue_prefix(query_id: str) -> str:
    """What the names of all queues of the query begin with."""
    return f"{QUEUE_NAMESPACE}{query_id}-"


def queue_name(query_id: str, stage: int, generation: int, index: int) -> str:
    """The queue of one consumer task. Raises ``ValueError`` where SQS would refuse the name."""
    name = f"{queue_prefix(query_id)}{stage}-{generation}-{index}"
    if not _QUEUE_NAME.fullmatch(name):
        raise ValueError(f"queue name {name!r} is longer than {MAX_QUEUE_NAME} or not plain")
    return name


def query_of_queue(name: str) -> str:
    """The query that owns a queue; "" for a name that ``queue_name`` did not make."""
    if not name.startswith(QUEUE_NAMESPACE):
        return ""
    return name.removeprefix(QUEUE_NAMESPACE).rsplit("-", 3)[0]


def _spread(query_id: str) -> str:
    """Two characters, so 256 places."""
    return xxhash.xxh3_64_hexdigest(query_id.encode())[:2]
