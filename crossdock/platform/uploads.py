"""How an object's bytes are cut into requests: S3's rules, and ours within them."""

from __future__ import annotations

#: A larger object goes up in parts, several at a time.
SINGLE_BYTES = 64 * 1024 * 1024
PART_BYTES = 32 * 1024 * 1024
#: S3's limit.
MAX_PARTS = 10_000


def part_bytes(size: int) -> int:
    """Bytes of each part but the last."""
    return max(PART_BYTES, -(-size // MAX_PARTS))


def parts(size: int) -> int:
    """Parts of an object that goes up in parts whatever its size; at least one."""
    return max(1, -(-size // part_bytes(size)))


def requests(size: int) -> int:
    """PUT-like requests that an object of ``size`` bytes costs."""
    if size <= SINGLE_BYTES:
        return 1
    # One to begin the upload, one to complete it.
    return 2 + -(-size // part_bytes(size))
