"""What outlives a query's plan: the names and types of its result, and its stages in words."""

from __future__ import annotations

import msgspec

from crossdock.errors import ObjectNotFound
from crossdock.planner.plan import ResultColumn, StagePlan
from crossdock.platform.ports import Objects
from crossdock.shuffle.layout import head_key


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object beside the result, written before the query is."""

    sql: str
    columns: tuple[ResultColumn, ...]
    session: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] = ()  # of stages
    notes: tuple[str, ...] = ()
    scanned_bytes: int = 0

    @classmethod
    def of(cls, plan: StagePlan) -> Head:
        return cls(
            sql=plan.sql,
            columns=plan.columns,
            session=plan.session,
            labels=tuple(stage.label for stage in plan.stages),
            notes=plan.notes,
            scanned_bytes=plan.scanned_bytes,
        )


#: Of a query that was not submitted over HTTP, or whose result was removed.
UNKNOWN = Head(sql="", columns=())


def write(objects: Objects, query_id: str, head: Head) -> None:
    """Raises ``ObjectExists``."""
    objects.put(head_key(query_id), msgspec.json.encode(head))


def read(objects: Objects, query_id: str) -> Head | None:
    """None when there is none."""
    try:
        return msgspec.json.decode(objects.get(head_key(query_id)), type=Head)
    except ObjectNotFound:
        return None
