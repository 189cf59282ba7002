"""Protective rules of the protocol, each switched off, and where that is found.

A rule that another one covers is switched off together with it: its name says so ("with ...").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation import switches


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule, and how to switch it off. ``seed``: where the search begins."""

    rule: str
    patches: Callable[[], Sequence[Any]]
    seed: int = 0
    finds: str = ""  # in the violation: where other rules that are off are seen sooner

    @contextmanager
    def off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for each in self.patches():
                stack.enter_context(each)
            yield


MUTATIONS: Mapping[str, Mutation] = {
    m.rule: m
    for m in (
        Mutation("nonce", switches.nonce, seed=1033),
        Mutation("attempt fence, with nonce", switches.fence, seed=977),
        Mutation("object key names the attempt", switches.object_key),
        Mutation("deciding by the returned item", switches.returned_item, seed=845),
        Mutation(
            "binding, with the check at completion and the fence of a rerun",
            switches.binding,
            seed=393,
            finds="runs",
        ),
        Mutation("generation, with the check at completion", switches.generation, seed=584),
        Mutation("de-duplication, with file names by sequence", switches.deduplication, seed=1),
        Mutation("counted end", switches.counted_end, seed=1),
        Mutation("an empty poll means nothing", switches.empty_poll, seed=1),
        Mutation("healing", switches.healing, seed=1),
        Mutation("healing by progress", switches.healing_by_progress, seed=1),
        Mutation("publish after commit", switches.publish_after_commit, seed=5),
        Mutation("sealed task list", switches.sealed_list, seed=12),
        Mutation("turn lease", switches.turn_lease, seed=4),
        Mutation("wake", switches.wake, seed=70, finds="knocked"),
        Mutation("tick numbers", switches.tick_numbers, seed=4),
        Mutation("launching records, with the budget's list", switches.launching_records, seed=68),
        Mutation(
            "lowest depth first, with early starts beyond upstream only",
            switches.lowest_first,
            seed=13,
        ),
        Mutation(
            "hand back while starved, with lowest depth first",
            switches.starved,
            seed=34,
            finds="weather",
        ),
        Mutation(
            "not offered while starved, with lowest depth first",
            switches.not_offered,
            seed=13,
            finds="failed",
        ),
        Mutation(
            "bounded handback, with not offered",
            switches.bounded_handback,
            seed=13,
            finds="handed back",
        ),
        Mutation("heartbeat by the coordinator's clock", switches.coordinators_clock, seed=1535),
        Mutation("a launch tells the time", switches.launch_tells_the_time, seed=16),
        Mutation("two ends", switches.two_ends, seed=228),
        Mutation("ledger before make", switches.ledger_first, seed=41),
        Mutation("confirmed release", switches.confirmed_release, seed=399),
        Mutation("result manifest", switches.result_manifest, seed=1032),
        Mutation("one end", switches.one_end, seed=61),
    )
}
