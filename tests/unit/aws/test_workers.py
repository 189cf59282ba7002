"""A function's worker: its time, its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crossdock.aws.workers import _own_scratch, habits


@pytest.mark.parametrize("seconds", [15.0, 60.0, 900.0])
def test_a_worker_ends_before_its_invocation_does(seconds: float) -> None:
    chosen = habits(seconds)
    assert chosen.life_seconds < seconds
    assert 0 < chosen.reserve_seconds <= 0.2 * seconds


def test_an_invocation_that_is_nearly_over_begins_nothing() -> None:
    assert habits(1.0).life_seconds == 0.0


def test_what_a_stopped_invocation_left_on_disk_goes_first(tmp_path: Path) -> None:
    (tmp_path / str(os.getpid()) / "query").mkdir(parents=True)
    (tmp_path / "999999999" / "query").mkdir(parents=True)  # a process that is dead
    (tmp_path / str(os.getppid())).mkdir()
    own = _own_scratch(tmp_path)
    assert list(own.iterdir()) == []
    assert {folder.name for folder in tmp_path.iterdir()} == {own.name, str(os.getppid())}
