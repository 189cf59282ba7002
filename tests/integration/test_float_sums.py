"""A sum of floats is the same in every run: partial sums are added up in the order of their tasks,
whatever the order they arrive in.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from tests.integration import handmade
from tests.observed import observe, running, until

#: Added up in this order they give 0.0; with the last before the second, 1.0.
VALUES = (1e16, 1.0, -1e16)
QUERIES = {"gather": "SELECT sum(v) FROM t", "hash": "SELECT k, sum(v) FROM t GROUP BY k"}


@pytest.mark.parametrize("exchange", ["s3qs", "batch"])
@pytest.mark.parametrize("mode", QUERIES)
def test_order_in_which_tasks_end_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: str, mode: str
) -> None:
    hooks = tmp_path / "hooks"
    observe(monkeypatch, hooks)
    for number, value in enumerate(VALUES):
        pq.write_table(pa.table({"k": [1], "v": [value]}), tmp_path / f"{number}.parquet")
    with crossdock.connect(
        home=tmp_path / "home",
        tables={"t": [str(tmp_path / f"{number}.parquet") for number in range(3)]},
        workers=4,
        worker_memory="256MB",
        exchange=exchange,
        single_task_bytes=0,
        partitions=2,
    ) as connection:
        assert connection.explain(QUERIES[mode]).stages[0].tasks == 3
        found = []
        for order in itertools.permutations(range(3)):
            (hooks / "steps").unlink(missing_ok=True)
            for task in order:
                (hooks / f"hold-written-0-{task}").touch()
            with running(connection, QUERIES[mode]) as query:
                for task in order:
                    (hooks / f"hold-written-0-{task}").unlink()
                    until(
                        lambda task=task: (
                            f"committed-0-{task}" in [name for _, name, _ in handmade.steps(hooks)]
                        ),
                        f"the commit of task {task}",
                    )
                query.join()
            assert query.error is None
            found.append(query.rows)
        assert [rows for rows in found if rows != found[0]] == []
