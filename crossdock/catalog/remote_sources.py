"""From a URL, a prefix or a glob of URLs to the Parquet files it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from crossdock.catalog.sources import (
    FoundFile,
    has_wildcard,
    is_marker,
    refuse_empty,
)
from crossdock.errors import ObjectNotFound, PlatformDenied, PlatformError, TableError
from crossdock.formats import Format, format_of
from crossdock.remote_files import SCHEME, RemoteFile, RemoteFiles


def find_remote(
    files: RemoteFiles, source: str, kind: Format = Format.PARQUET
) -> Sequence[FoundFile]:
    """Files that ``source`` names, by URL: an object, a prefix as a folder, or a glob.

    A folder means the objects of ``kind`` anywhere below it; marker and hidden names are no data.

    Raises:
        TableError: the source is missing, matches nothing, or is empty; it is named.
    """
    bucket, _, key = source.removeprefix(SCHEME).partition("/")
    if not bucket or has_wildcard(bucket):
        raise TableError(f"cannot read {source}: the name of a bucket must follow {SCHEME}")
    try:
        found = _find(files, source, key, kind)
    except PlatformDenied as error:
        raise TableError(f"cannot read {source}: permission denied: {error}") from error
    except PlatformError as error:
        raise TableError(f"cannot read {source}: {error}") from error
    for file in found:
        refuse_empty(file.url, file.size, kind)
    return [FoundFile(file.url, file.size, file.version) for file in found]


def find_all_remote(files: RemoteFiles, folder: str) -> Sequence[FoundFile]:
    """Every object below ``folder`` that has bytes, whatever its name; no markers.

    Raises ``TableError`` when it cannot be listed.
    """
    prefix = folder.rstrip("/") + "/"
    try:
        found = files.list(prefix)
    except PlatformError as error:
        raise TableError(f"cannot list {folder}: {error}") from error
    return [
        FoundFile(file.url, file.size, file.version)
        for file in found
        if file.size and not any(map(is_marker, file.url.removeprefix(prefix).split("/")))
    ]


def _find(files: RemoteFiles, source: str, key: str, kind: Format) -> Sequence[RemoteFile]:
    if has_wildcard(key):
        return _required(_matches(files, source), f"no file matches {source}")
    denied: PlatformDenied | None = None
    if key and not key.endswith("/"):
        try:
            return [files.look(source)]
        except ObjectNotFound:
            pass  # then it is a folder, or nothing
        except PlatformDenied as error:
            denied = error  # so S3 answers for a missing object, if only a prefix may be listed
    folder = source.rstrip("/") + "/"
    below = [file for file in files.list(folder) if _is_data(file.url.removeprefix(folder), kind)]
    if denied is not None and not below:
        raise denied
    return _required(
        below,
        f"{source} does not exist, as a file or as a folder with {kind.words} files (*.{kind})",
    )


def _required(found: Sequence[RemoteFile], complaint: str) -> Sequence[RemoteFile]:
    if not found:
        raise TableError(complaint)
    return found


def _is_data(name: str, kind: Format) -> bool:
    parts = name.split("/")
    return format_of(parts[-1]) is kind and not any(map(is_marker, parts))


def _matches(files: RemoteFiles, pattern: str) -> Sequence[RemoteFile]:
    """Objects of a glob. Wildcards do not match markers; ``**`` matches any number of folders."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if has_wildcard(part))
    first = parts[fixed]
    start = first[: next(i for i, character in enumerate(first) if has_wildcard(character))]
    prefix = "/".join([*parts[:fixed], start])
    matcher = _matcher(parts[fixed:])
    return [
        file
        for file in files.list(prefix)
        if not file.url.endswith("/") and matcher(file.url.split("/")[fixed:])
    ]


def _matcher(pattern: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    def match(parts: Sequence[str], at: int = 0) -> bool:
        if at == len(pattern):
            return not parts
        if pattern[at] == "**":
            return match(parts, at + 1) or bool(parts and match(parts[1:], at))
        return bool(parts) and fnmatchcase(parts[0], pattern[at]) and match(parts[1:], at + 1)

    return lambda parts: not any(map(is_marker, parts)) and match(parts)
