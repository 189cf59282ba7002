"""Real faults of one machine: a full disk, a folder that cannot be written to, time that runs out.

Disks are small file systems in memory, mounted in a name space of the client's own, which needs no
rights. Where the kernel does not allow that, a limit on the size of files stands in for the disk.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import duckdb
import pytest

from tests.home_contents import leftovers

ROWS = 600_000
PATIENCE = 120.0

CLIENT = """
    import json, pathlib, resource, sys
    import crossdock
    from crossdock.errors import Error
    from tests.home_contents import leftovers
    home, table, limit, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    outcomes = []
    try:
        with crossdock.connect(
            home=home, tables={"t": table}, workers=2, worker_memory="256MB", partitions=2,
            single_task_bytes=0, broadcast_bytes=0, timezone="UTC", max_attempts=2,
        ) as connection:
            for sql in wanted:
                try:
                    outcomes.append(["rows", connection.execute(sql).fetchall()])
                except Error as error:
                    outcomes.append([getattr(error, "kind", ""), str(error)])
    except Error as error:
        outcomes.append([type(error).__name__, str(error)])
    refused = outcomes[-1][0] == "SettingError"
    left = [] if refused else leftovers(pathlib.Path(home), kept=("receipt",))
    print(json.dumps([outcomes, left]))
"""

#: Both sides travel: more than twice the table's bytes.
LARGE = "SELECT count(*) FROM t JOIN t AS u USING (k) WHERE t.v + u.v >= 0"
SMALL = "SELECT min(v), max(v) FROM t"


@cache
def may_mount() -> bool:
    done = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT hash(i) AS k, i AS v FROM range({ROWS}) AS r(i)) TO '{path}'"
        )
    return path


def run(
    home: Path, table: Path, *wanted: str, mount: str = "", limit: int = 0
) -> tuple[list[list[object]], list[str]]:
    """How each statement ended, and what was left in the home folder, of a client of its own."""
    client = [sys.executable, "-c", textwrap.dedent(CLIENT), str(home), str(table), str(limit)]
    command = [*client, *wanted]
    if mount:
        command = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes, left = json.loads(done.stdout.splitlines()[-1])
    return outcomes, left


def test_query_that_fills_the_disk_says_what_to_do_and_the_next_one_runs(
    tmp_path: Path, table: Path
) -> None:
    home = tmp_path / "disk"
    home.mkdir()
    if not may_mount():
        outcomes, left = run(home, table, LARGE, SMALL, limit=2 << 20)
    else:
        mount = f"mount -t tmpfs -o size=6m tmpfs {home}"
        outcomes, left = run(home / "home", table, LARGE, SMALL, mount=mount)
    (kind, message), after = outcomes
    assert kind == "OutOfSpace", message
    assert "make room on the disk of the home folder" in str(message) or "free space" in str(
        message
    )
    assert after == ["rows", [[0, ROWS - 1]]]
    assert left == []


def test_limit_on_file_sizes_is_a_full_disk_too(tmp_path: Path, table: Path) -> None:
    (ended, after), left = run(tmp_path / "home", table, LARGE, SMALL, limit=1 << 20)
    assert ended[0] == "OutOfSpace", ended
    assert after == ["rows", [[0, ROWS - 1]]]
    assert left == []


@pytest.mark.skipif("not may_mount()", reason="the kernel does not let us mount")
@pytest.mark.parametrize("folder", ["objects", "scratch", ""])
def test_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, table: Path, folder: str
) -> None:
    home = tmp_path / "home"
    run(home, table, SMALL)
    target = home / folder
    mount = f"mount --bind {target} {target} && mount -o remount,bind,ro {target}"
    outcomes, _ = run(home, table, LARGE, mount=mount)
    kind, message = outcomes[0]
    assert kind != "rows"
    assert str(target) in str(message)
    assert re.search("read-only|written", str(message), re.IGNORECASE)
    if folder:
        assert leftovers(home, kept=("receipt",)) == []
