"""Many small requests at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class InParallel(Protocol):
    """Does something to each of several things; ``in_parallel``, or a simulation's."""

    def __call__(self, do: Callable[[A], R], things: Sequence[A]) -> list[R]: ...


#: Requests of one call under way at once; the clients keep more connections than that.
THREADS = 16


def in_parallel(do: Callable[[A], R], things: Sequence[A], *, threads: int = THREADS) -> list[R]:
    """``do`` of each thing, in their order; all are tried before the first error is raised."""
    if len(things) < 2:
        return [do(thing) for thing in things]
    with ThreadPoolExecutor(min(threads, len(things)), thread_name_prefix="request") as pool:
        futures = [pool.submit(do, thing) for thing in things]
    return [future.result() for future in futures]
