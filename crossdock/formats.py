"""The formats of tables' files, and how a file's name tells its own."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What a file holds."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ICEBERG = "iceberg"  # a table's metadata file, or its folder

    @property
    def words(self) -> str:
        """As people write it."""
        return self.title() if self in (Format.PARQUET, Format.ICEBERG) else self.upper()


_ENDINGS = {
    Format.PARQUET: (".parquet", ".parq", ".pq"),
    Format.CSV: (".csv", ".tsv"),
    Format.JSON: (".json", ".jsonl", ".ndjson"),
}
#: DuckDB's word for each, by the ending of a text file's name.
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_of(name: str) -> Format | None:
    """By the ending of a file's name; a text file may be compressed."""
    lower = name.lower()
    if lower.endswith(_ENDINGS[Format.PARQUET]):
        return Format.PARQUET
    for ending in _COMPRESSIONS:
        lower = lower.removesuffix(ending)
    for kind in (Format.CSV, Format.JSON):
        if lower.endswith(_ENDINGS[kind]):
            return kind
    return None


def compression_of(name: str) -> str:
    """``gzip``, ``zstd`` or ``none``, by the ending of a text file's name."""
    lower = name.lower()
    return next((word for end, word in _COMPRESSIONS.items() if lower.endswith(end)), "none")
