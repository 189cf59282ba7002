"""Building functions and the engine's layer while somebody runs from them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from layers import build


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package ``functions``."""
    for folder in ("functions", "layers"):
        (tmp_path / folder).mkdir()
    (tmp_path / "functions" / "one.py").write_text("ONE = 1\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "BUILD", tmp_path / "build")
    monkeypatch.setattr(build, "find_python", lambda version: None)
    return tmp_path


def test_what_did_not_change_is_left_in_place(tree: Path) -> None:
    first = build.build_functions().stat()
    assert build.build_functions().stat().st_ino == first.st_ino
    (tree / "functions" / "__pycache__").mkdir()
    (tree / "functions" / "__pycache__" / "one.pyc").write_bytes(b"")
    assert build.build_functions().stat().st_ino == first.st_ino


def test_what_changed_is_moved_in_whole(tree: Path) -> None:
    folder = build.build_functions()
    (tree / "functions" / "one.py").unlink()
    (tree / "functions" / "two.py").write_text("TWO = 2\n")
    assert build.build_functions() == folder
    assert [path.name for path in (folder / "functions").iterdir()] == ["two.py"]
    assert sorted(path.name for path in (tree / "build").iterdir()) == [
        "functions",
        "functions.lock",
        "functions.stamp",
    ]


def test_a_build_that_fails_leaves_the_one_before_and_is_made_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build.build_functions()

    def fail(packages: Path, python: Path | None) -> None:
        assert (folder / "functions" / "one.py").exists()  # in use while the other is made
        raise subprocess.CalledProcessError(1, "compileall")

    (tree / "functions" / "two.py").write_text("TWO = 2\n")
    with monkeypatch.context() as broken:
        broken.setattr(build, "_compile", fail)
        with pytest.raises(subprocess.CalledProcessError):
            build.build_functions()
    assert [path.name for path in (folder / "functions").iterdir()] == ["one.py"]
    build.build_functions()
    names = sorted(path.name for path in (folder / "functions").iterdir())
    assert names == ["one.py", "two.py"]
