"""SIGTERM, as ``timeout`` and service managers send it: the query is cancelled, nothing stays."""

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
DISTRIBUTED = ("--single-task-bytes", "0", "--workers", "2", "--worker-memory", "512MB")
#: 81 million million pairs to compare: hours of work, no row.
ENDLESS = "SELECT count(*) FROM n a, n b, n c, n d WHERE hash(a.i, b.i) = hash(c.i, d.i + 1)"


@pytest.mark.parametrize("settings", [DISTRIBUTED], ids=["distributed"])
def test_sigterm_cancels_and_exits_143(tmp_path: Path, settings: tuple[str, ...]) -> None:
    pq.write_table(pa.table({"i": pa.array(range(3000), pa.int64())}), tmp_path / "n.parquet")
    command = [PROGRAM, "query", ENDLESS, "--table", "n=n.parquet", "--home", "home", *settings]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: statuses(tmp_path / "home") == [QueryStatus.RUNNING], "a running query")
            process.send_signal(signal.SIGTERM)
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 143
    assert message.strip() == "error: terminated; the query was cancelled"
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
