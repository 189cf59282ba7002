"""What a reference to files may say about reading them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossdock.errors import TableError
from crossdock.formats import Format, format_of

#: Other spellings of options.
SYNONYMS = {
    "sep": "delim",
    "separator": "delim",
    "delimiter": "delim",
    "null": "nullstr",
    "date_format": "dateformat",
    "timestamp_format": "timestampformat",
    "column_types": "types",
    "dtypes": "types",
    "column_names": "names",
    "maximum_line_size": "max_line_size",
}
#: Options that only guide the guessing.
GUESSING = {
    Format.CSV: (
        *("auto_detect", "columns", "types", "names", "all_varchar", "sample_size"),
        *("auto_type_candidates", "normalize_names", "files_to_sniff"),
    ),
    Format.JSON: (
        *("auto_detect", "columns", "sample_size", "maximum_sample_files", "maximum_depth"),
        *("field_appearance_threshold", "map_inference_threshold", "convert_strings_to_integers"),
    ),
}
#: Options that also decide how a value is read.
READING = {
    Format.CSV: (
        *("delim", "quote", "escape", "header", "skip", "comment", "new_line", "nullstr"),
        *("dateformat", "timestampformat", "decimal_separator", "thousands", "compression"),
        *("ignore_errors", "null_padding", "strict_mode", "encoding", "force_not_null"),
        *("allow_quoted_nulls", "max_line_size", "buffer_size", "parallel"),
    ),
    Format.JSON: (
        *("format", "records", "array", "dateformat", "timestampformat", "compression"),
        *("ignore_errors", "maximum_object_size", "case_insensitive_keys"),
    ),
    Format.ICEBERG: ("snapshot_from_id", "snapshot_from_timestamp"),
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a file reference may say about reading; None is automatic."""

    hive_partitioning: bool | None = None
    union_by_name: bool | None = None
    format: Format | None = None
    #: Of DuckDB's reader of CSV or JSON, or of an Iceberg table; values as SQL text, by name.
    options: tuple[tuple[str, str], ...] = ()


AUTOMATIC = ReadOptions()


def supported_options(kind: Format) -> frozenset[str]:
    """Names a user may give, synonyms included; none for Parquet."""
    own = {*GUESSING.get(kind, ()), *READING.get(kind, ())}
    return frozenset(own | {other for other, name in SYNONYMS.items() if name in own})


def read_options(
    sources: Sequence[str], format: str | None, options: Mapping[str, object]
) -> ReadOptions:
    """What Python or the command line say of a table.

    Raises ``TableError``: a format or an option that there is not, or a value that is none.
    """
    kind = _format(format)
    if not options:
        return ReadOptions(format=kind)
    told = kind or next(filter(None, map(format_of, sources)), None) or Format.PARQUET
    known = supported_options(told)
    texts: dict[str, str] = {}
    for name, value in options.items():
        if name not in known:
            raise TableError(_unknown(name, told, known))
        texts[SYNONYMS.get(name, name)] = _text(name, value)
    return ReadOptions(format=told, options=tuple(sorted(texts.items())))


def _format(text: str | None) -> Format | None:
    if text is None:
        return None
    if text.lower() not in set(Format):
        raise TableError(f"format {text!r} is not known; these are: {', '.join(Format)}")
    return Format(text.lower())


def _unknown(name: str, kind: Format, known: frozenset[str]) -> str:
    if not known:
        return f"option {name!r}: Parquet files take none; give a format if they are of another"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"these are: {', '.join(sorted(known))}"
    return f"option {name!r} of {kind.words} is not known: {hint}"


def _text(name: str, value: object) -> str:
    """A Python value as SQL text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(name, item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = [f"{_text(name, str(key))}: {_text(name, item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    raise TableError(f"option {name!r}: {type(value).__name__} is no value an option can have")
