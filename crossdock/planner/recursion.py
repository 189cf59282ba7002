"""Room on Python's stack for the deepest statement the engine itself takes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: The engine takes 1,000 nested expressions; one costs up to ten frames here (measured: 6).
_FRAMES = 12_000
_lock = threading.Lock()
_inside = 0
_usual = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Allow deep recursion until the last of the threads inside has left.

    The limit is the process's, not the thread's. Python's own frames take no C stack, so raising
    it for a while is safe.
    """
    global _inside, _usual
    with _lock:
        if _inside == 0:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, _FRAMES))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_usual)
