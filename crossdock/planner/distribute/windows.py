"""Windows: by partition keys that calls share; calls that share none go one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import already_together, gathered, is_single, shuffled
from crossdock.planner.distribute.expressions import is_volatile, output_columns
from crossdock.planner.nodes import Expression, Project, Window, WindowCall


@dataclass(frozen=True, slots=True)
class Band:
    """Calls computed together: their places in the node, and the keys all of them have."""

    places: tuple[int, ...]
    keys: tuple[Expression, ...]


def place_window(context: Context, node: Window) -> Placed:
    child = context.place(node.child)
    if is_single(context, child):
        return _extended(gathered(context, child), node.calls)
    bands = sorted(_bands(node.calls), key=lambda band: not child.where.within(band.keys))
    for band in bands:
        child = _moved(context, child, band)
        child = _extended(child, [node.calls[place] for place in band.places])
    return _in_order(child, node, [place for band in bands for place in band.places])


def _bands(calls: tuple[WindowCall, ...]) -> list[Band]:
    """As few bands as sharing a key allows; global calls come last, when little else is left."""
    bands: list[Band] = []
    for place, call in enumerate(calls):
        keys = () if is_volatile(call.partition) else call.partition
        for i, band in enumerate(bands):
            shared = tuple(key for key in band.keys if key in keys)
            if shared or (not band.keys and not keys):
                bands[i] = Band((*band.places, place), shared)
                break
        else:
            bands.append(Band((place,), tuple(dict.fromkeys(keys))))
    return sorted(bands, key=lambda band: not band.keys)


def _moved(context: Context, child: Placed, band: Band) -> Placed:
    if not band.keys:
        return gathered(context, child, "a window over all rows")
    return already_together(context, child, band.keys) or shuffled(context, child, band.keys)


def _extended(child: Placed, calls: tuple[WindowCall, ...] | list[WindowCall]) -> Placed:
    columns = child.size.columns + tuple(cost.column_of(c.type) for c in calls)
    return replace(
        child,
        relation=Window(child.relation, tuple(calls)),
        size=replace(child.size, columns=columns),
    )


def _in_order(child: Placed, node: Window, computed: list[int]) -> Placed:
    """The node's own column order, if the bands made another."""
    if computed == sorted(computed):
        return child
    before = len(node.types) - len(node.calls)
    columns = output_columns(child.relation.types)
    wanted = (
        *columns[:before],
        *(columns[before + computed.index(place)] for place in range(len(node.calls))),
    )
    return replace(
        child,
        relation=Project(child.relation, wanted),
        where=child.where.projected(wanted),
        size=cost.projected(child.size, wanted),
    )
