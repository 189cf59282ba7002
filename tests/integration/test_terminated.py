"""Ctrl-C and SIGTERM at the first moment a query is known: it is cancelled, nothing stays."""

from __future__ import annotations

import signal
import subprocess
import sysconfig
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_state.records import QueryStatus
from coordinator_state.sqlite import SqliteStateStore
from tests.home_contents import leftovers
from tests.observed import until

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
#: 81 million million pairs to compare: hours of work, no row.
ENDLESS = "SELECT count(*) FROM n a, n b, n c, n d WHERE hash(a.i, b.i) = hash(c.i, d.i + 1)"


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
    ids=["SIGTERM", "SIGINT"],
)
def test_signal_cancels_a_query_that_just_began(
    tmp_path: Path, sent: signal.Signals, code: int, word: str
) -> None:
    pq.write_table(pa.table({"i": pa.array(range(3000), pa.int64())}), tmp_path / "n.parquet")
    command = [PROGRAM, "query", ENDLESS, "--table", "n=n.parquet", "--home", "home"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell has Ctrl-C ignored, and hands that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            until(lambda: statuses(tmp_path / "home") == [QueryStatus.RUNNING], "a running query")
            process.send_signal(sent)
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code
    assert message.strip() == f"error: {word}; the query was cancelled"
    assert statuses(tmp_path / "home") == [QueryStatus.CANCELLED]
    assert leftovers(tmp_path / "home") == []


def statuses(home: Path) -> list[QueryStatus]:
    if not (home / "state.db").exists():
        return []
    store = SqliteStateStore(home / "state.db")
    try:
        return [query.status for query in store.list_queries()]
    finally:
        store.close()
