"""Values in the names of ``key=value`` folders."""

from __future__ import annotations

from urllib.parse import unquote

from crossdock.errors import TableError

#: A partition's value that stands for NULL.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_value(key: str, path: str) -> str | None:
    """The text of ``key=value`` in a file's folders, percent-decoded once; None: it is NULL.

    Raises ``TableError``: no folder has that key.
    """
    for folder in reversed(path.split("/")[:-1]):
        name, separator, value = folder.partition("=")
        if separator and unquote(name).lower() == key.lower():
            decoded = unquote(value)
            return None if decoded == HIVE_NULL else decoded
    raise TableError(f"{path}: no folder gives a value for partition column {key}")
