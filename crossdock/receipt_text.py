"""The receipt as text."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from crossdock.receipt import Receipt, StageReceipt

_WIDTH = 100
#: Kinds worth a word, in this order; the others are in the JSON form.
_SHOWN = (
    ("object_put", "object puts"),
    ("object_get", "gets"),
    ("object_list", "lists"),
    ("object_delete", "deletes"),
    ("queue_send", "queue sends"),
    ("queue_message", "messages"),
    ("queue_receive", "receives"),
    ("queue_delete", "deletes"),
    ("state_write", "state writes"),
    ("state_read", "reads"),
)


def human_bytes(size: float) -> str:
    """Decimal units, three digits: ``812 B``, ``1.25 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def human_count(count: int) -> str:
    return f"{count:,}"


def render_receipt(receipt: Receipt) -> str:
    """Ends with a newline; plain characters only, so that it can be logged."""
    stream = io.StringIO()
    out = Console(file=stream, width=_WIDTH, color_system=None, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="")
    table.add_column("stage", justify="right")
    table.add_column("what", max_width=30, no_wrap=True, overflow="ellipsis")
    for heading in ("tasks", "rows in", "rows out", "bytes out", "seconds", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for stage in receipt.stages:
        table.add_row(*_cells(stage))
    out.print(table)
    workers = _count(receipt.workers, "worker") if receipt.workers else "in process"
    rows = _count(receipt.result_rows, "row")
    out.print(
        f"query {receipt.query_id}: {rows} in "
        f"{receipt.seconds:.2f} s, {workers}, exchange {receipt.exchange}"
    )
    requests = ", ".join(
        f"{human_count(receipt.requests[kind])} {word}"
        for kind, word in _SHOWN
        if receipt.requests.get(kind)
    )
    if requests:
        out.print(f"requests: {requests}", soft_wrap=True)
    out.print(_bill(receipt), soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _count(count: int, thing: str) -> str:
    return f"{human_count(count)} {thing}" + ("" if count == 1 else "s")


def _cells(stage: StageReceipt) -> list[str]:
    retried = f" (+{stage.attempts - stage.tasks})" if stage.attempts > stage.tasks else ""
    return [
        str(stage.stage),
        stage.label,
        f"{stage.tasks}{retried}",
        human_count(stage.rows_in) if stage.rows_in else "-",
        human_count(stage.rows_out),
        human_bytes(stage.bytes_out) if stage.bytes_out else "-",
        f"{stage.seconds:.2f}",
        human_bytes(stage.peak_memory) if stage.peak_memory else "-",
    ]


def _bill(receipt: Receipt) -> str:
    cost = receipt.cost
    services = dict.fromkeys(item.service for item in cost.items)
    parts = ", ".join(f"{name} ${cost.of(name):.6f}" for name in services)
    return f"on AWS ({cost.region}, list prices of {cost.as_of}): ${cost.total:.6f} ({parts})"
