"""From what a user names (file, folder, glob, list) to the Parquet files it stands for."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crossdock.errors import TableError
from crossdock.formats import Format, format_of

WILDCARDS = "*?["


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file with the identity its cached footer is kept under."""

    path: str
    size: int  # bytes
    version: int | str  # modification time in ns, or ETag


def find_files(
    sources: Sequence[str], base: Path, kind: Format = Format.PARQUET
) -> tuple[FoundFile, ...]:
    """Every file that ``sources`` name, each once, in source order, then by path.

    Relative sources start at ``base``. A folder means the files of ``kind`` anywhere below it;
    marker and hidden files (``_SUCCESS``, ``_temporary/``, ``.part.crc``) are no data.

    Raises:
        TableError: a source is missing, matches nothing, or is empty; it is named.
    """
    if not sources:
        raise TableError("a table needs at least one file: the list of paths is empty")
    paths = dict.fromkeys(path for source in sources for path in _expand(source, base, kind))
    return tuple(_look(path, kind) for path in paths)


def find_all_files(folder: str, base: Path) -> tuple[FoundFile, ...]:
    """Every file of a folder that has bytes, by path, whatever its name; no markers."""
    path = os.path.normpath(base / folder)
    found = [_look(each, Format.CSV) for each in sorted(_below(path, None))]
    return tuple(file for file in found if file.size)


def refuse_empty(path: str, size: int, kind: Format) -> None:
    """Raise ``TableError`` for a file of 0 bytes that is no text: there it only has no row."""
    if size == 0 and kind is Format.PARQUET and format_of(path) in (Format.PARQUET, None):
        raise TableError(
            f"{path} is empty (0 bytes), not a Parquet file; remove it or write it again"
        )


def has_wildcard(text: str) -> bool:
    return any(character in text for character in WILDCARDS)


def _expand(source: str, base: Path, kind: Format) -> list[str]:
    if "://" in source:
        scheme = source.split("://", 1)[0]
        raise TableError(f"cannot read {source}: {scheme}:// is not a local path")
    path = os.path.normpath(base / Path(source).expanduser())
    if os.path.lexists(path):
        if not Path(path).is_dir():
            return [path]
        return _required(sorted(_below(path, kind)), _nothing_below(path, source, kind))
    if has_wildcard(source):
        fixed = Path(*Path(path).parts[: _fixed_parts(path)])
        hint = "" if fixed.exists() else f": {fixed} does not exist{_nearest(str(fixed))}"
        return _required(_matches(path), f"no file matches {source}{hint}")
    raise TableError(f"{source} does not exist{_nearest(path)}")


def _required(paths: list[str], complaint: str) -> list[str]:
    if not paths:
        raise TableError(complaint)
    return paths


def is_marker(name: str) -> bool:
    """Hidden and bookkeeping names. ``_key=value`` is a partition folder, as Spark has it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _nothing_below(folder: str, source: str, kind: Format) -> str:
    complaint = f"no {kind.words} file (*.{kind}) below the folder {source}"
    if kind is not Format.PARQUET:
        return complaint
    others = [each for each in Format if each is not kind and any(_below(folder, each))]
    if not others:
        return complaint
    return f"{complaint}, but {others[0].words} files: give the table the format {others[0]}"


def _below(folder: str, kind: Format | None) -> Iterator[str]:
    """Files of ``kind``; None: of any name."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not is_marker(name)]
        for name in names:
            if (kind is None or format_of(name) is kind) and not is_marker(name):
                yield os.path.join(parent, name)  # noqa: PTH118  # called once a file


def _matches(pattern: str) -> list[str]:
    """Files of a glob. Wildcards do not match markers; ``**`` matches any number of folders."""
    fixed = _fixed_parts(pattern)
    found: Iterable[str] = glob.iglob(pattern, recursive=True)  # noqa: PTH207  # keeps `..` and order
    return sorted(
        path
        for path in found
        if not any(is_marker(part) for part in Path(path).parts[fixed:]) and Path(path).is_file()
    )


def _fixed_parts(pattern: str) -> int:
    """Leading path components that hold no wildcard: the user wrote those, markers or not."""
    parts = Path(pattern).parts
    return next((i for i, part in enumerate(parts) if has_wildcard(part)), len(parts))


def _look(path: str, kind: Format) -> FoundFile:
    try:
        status = os.stat(path)  # noqa: PTH116  # called once a file
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from error
    refuse_empty(path, status.st_size, kind)
    return FoundFile(path, status.st_size, status.st_mtime_ns)


def _nearest(path: str) -> str:
    """``; did you mean X?`` for the closest name beside the missing one, at any level."""
    missing = Path(path)
    while not missing.parent.exists():
        missing = missing.parent
    if not missing.parent.is_dir():
        return f": {missing.parent} is not a folder"
    names = [entry.name for entry in missing.parent.iterdir() if not is_marker(entry.name)]
    close = difflib.get_close_matches(missing.name, names, n=1, cutoff=0.5)
    return f"; did you mean {missing.parent / close[0]}?" if close else ""
