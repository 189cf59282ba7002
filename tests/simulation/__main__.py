"""``make simulate``: seeds on every processor; those that fail are named, with their stories.

python -m tests.simulation --seeds 10000 [--seed 4711] [--seconds 600]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.simulation.seeds import Outcome, report, run_seed

_CHUNK = 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its whole story")
    parser.add_argument("--seconds", type=float, help="begin no more seeds after so long")
    options = parser.parse_args()
    if options.seed is not None:
        outcome = run_seed(options.seed, tell=True)
        sys.stdout.write(report(outcome) + "\n")
        return bool(outcome.wrong)
    until = None if options.seconds is None else time.monotonic() + options.seconds
    done, wrong = 0, 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        seeds = range(options.first, options.first + options.seeds)
        for outcomes in pool.map(_run, _chunks(seeds), [until] * (len(seeds) // _CHUNK + 1)):
            done += len(outcomes)
            for outcome in (one for one in outcomes if one.wrong):
                wrong += 1
                sys.stdout.write(report(outcome) + "\n")
                sys.stdout.flush()
    sys.stdout.write(f"{done} seeds, {wrong} of them violate something\n")
    return bool(wrong)


def _chunks(seeds: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(seeds)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _run(seeds: list[int], until: float | None) -> list[Outcome]:
    return [run_seed(seed) for seed in seeds if until is None or time.monotonic() < until]


if __name__ == "__main__":
    sys.exit(main())
