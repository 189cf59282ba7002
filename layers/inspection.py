"""Looking at what was built: sizes, and the machine that shared objects are for."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from layers.recipes import UNPACKED_LIMIT

_MIB = 1024 * 1024
_ELF = b"\x7fELF"


def sizes(folder: Path) -> Mapping[str, int]:
    """Unpacked bytes of each layer below ``folder``."""
    return {layer.name: folder_bytes(layer) for layer in sorted(folder.iterdir()) if layer.is_dir()}


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def machines(folder: Path) -> Mapping[Path, int]:
    """``e_machine`` of every ELF file below ``folder``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (number := _machine(path)) is not None:
            found[path] = number
    return found


def _machine(path: Path) -> int | None:
    with path.open("rb") as file:
        header = file.read(20)
    if len(header) < 20 or not header.startswith(_ELF):
        return None
    number: int = struct.unpack_from("<H", header, 18)[0]
    return number


def report(folder: Path) -> str:
    """A line a layer, and the total against the limit."""
    found = sizes(folder)
    lines = [f"{folder.name}:"]
    lines += [f"  {name:<10} {size / _MIB:7.1f} MB" for name, size in found.items()]
    total = sum(found.values())
    lines.append(f"  {'total':<10} {total / _MIB:7.1f} MB of {UNPACKED_LIMIT // _MIB} MB")
    return "\n".join(lines)
