"""``-o`` to what is no ordinary file: nothing is renamed over it."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
QUERY = (PROGRAM, "query", "SELECT 7 AS x", "--format", "csv", "--quiet", "-o")


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "link"])
def test_redirected_standard_output_is_written_where_it_stands(tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as out:
        subprocess.run([*QUERY, place], cwd=tmp_path, stdout=out, check=True)
        out.write("after\n")
    assert log.read_text() == "before\nx\n7\nafter\n"


def test_pipe_by_name(tmp_path: Path) -> None:
    command = [*QUERY, "/dev/stdout"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"x\n7\n"


def test_link_to_a_file_is_kept_and_its_file_replaced(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("old")
    (tmp_path / "link").symlink_to("rows.csv")
    subprocess.run([*QUERY, "link"], cwd=tmp_path, check=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "rows.csv").read_text() == "x\n7\n"
