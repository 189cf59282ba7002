"""What an object key may be: names joined by ``/`` that are fit for a folder tree too."""

from __future__ import annotations

from crossdock.errors import PlatformError

#: S3's limit, in bytes of UTF-8.
MAX_KEY_BYTES = 1024


def checked(key: str) -> str:
    """The key. Raises ``PlatformError`` for one that could leave its store, or that S3 refuses."""
    if "\0" in key or any(segment in ("", ".", "..") for segment in key.split("/")):
        raise PlatformError(
            f"object key {key!r} is refused: write names joined by '/', without '.' or '..'"
        )
    if len(key.encode()) > MAX_KEY_BYTES:
        raise PlatformError(f"object key {key!r} is refused: over {MAX_KEY_BYTES} bytes")
    return key
