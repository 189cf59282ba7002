"""``python -m layers.build``: put layers and function code into ``build/``, ready to deploy.

Each is made again only when what goes into it changed: another process may be running functions
from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from layers.inspection import report
from layers.pythons import find_python
from layers.recipes import (
    ENGINE,
    ENGINE_PACKAGES,
    LEFT_OUT,
    PYTHON,
    ROOT,
    THIRD_PARTY,
    Machine,
    Target,
)

BUILD = ROOT / "build"
#: Pure Python, so the same for any machine.
_RUNTIME_PACKAGES = ("boto3",)


@click.command(help=__doc__)
@click.option(
    "--architecture",
    "machines",
    type=click.Choice([machine.value for machine in Machine]),
    multiple=True,
    default=[Machine.ARM64.value],
    help="May be given twice.",
)
@click.option("--native", is_flag=True, help="For this machine and this Python instead.")
def main(machines: Sequence[str], native: bool) -> None:
    folders = [build_native()] if native else [build_layers(Machine(name)) for name in machines]
    build_functions()
    for folder in folders:
        click.echo(report(folder))


def build_layers(machine: Machine) -> Path:
    """Layers for Lambda; the folder that holds them, one subfolder a layer."""
    target = Target(machine=machine)
    folder = BUILD / "layers" / machine
    pip = [sys.executable, "-m", "pip"]
    with _locked(folder):
        for layer in THIRD_PARTY:
            lock = target.lock(layer)
            options = [*target.pip_options, "--require-hashes", f"--requirement={lock}"]
            _third_party(folder / layer, lock, pip, options, find_python(PYTHON))
        _engine(folder / ENGINE, find_python(PYTHON))
    return folder


def build_native() -> Path:
    """The same versions for the interpreter that runs this, as an emulator of AWS needs them."""
    target = Target(machine=Machine.of_this())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = BUILD / "layers" / f"native-{version}"
    interpreter = Path(sys.executable)
    pip = [sys.executable, "-m", "pip"]
    with _locked(folder):
        for layer in THIRD_PARTY:
            lock = target.lock(layer)
            # Hashes are of Lambda's wheels, so versions only.
            wanted = [line.split()[0] for line in lock.read_text().splitlines() if "==" in line]
            _third_party(folder / layer, lock, pip, wanted, interpreter)
        _engine(folder / ENGINE, interpreter)
    return folder


def build_functions() -> Path:
    """Function code as its asset: a folder that holds the package ``functions``."""
    folder = BUILD / "functions"
    python = find_python(PYTHON)

    def make(fresh: Path) -> None:
        _copy_packages(["functions"], fresh)
        _compile(fresh, python)

    with _locked(folder):
        _place(folder, _digest([*_recipes(), *_sources(["functions"])], extra=str(python)), make)
    return folder


def build_runtime() -> Path:
    """What Lambda's Python has besides the standard library, for trying functions elsewhere."""
    folder = BUILD / "runtime"
    with _locked(folder):
        if not (folder / "boto3").is_dir():
            command = [sys.executable, "-m", "pip", "install", "--quiet", f"--target={folder}"]
            subprocess.run([*command, *_RUNTIME_PACKAGES], check=True)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two builds of one folder wait for each other."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _place(folder: Path, wanted: str, make: Callable[[Path], None]) -> None:
    """Let ``make`` fill the folder, unless it holds what is ``wanted`` (a digest) already.

    It is filled elsewhere and moved, so that whoever runs from it sees the old or the new one.
    """
    stamp, fresh, old = (folder.with_suffix(name) for name in (".stamp", ".new", ".old"))
    if stamp.exists() and stamp.read_text() == wanted and folder.is_dir():
        return
    stamp.unlink(missing_ok=True)
    for left in (fresh, old):  # by a build that was cut off
        shutil.rmtree(left, ignore_errors=True)
    make(fresh)
    if folder.is_dir():
        folder.rename(old)
    fresh.rename(folder)
    stamp.write_text(wanted)
    shutil.rmtree(old, ignore_errors=True)


def _recipes() -> Iterator[Path]:
    return (ROOT / "layers").glob("*.py")


def _third_party(
    layer: Path, lock: Path, pip: Sequence[str], options: Sequence[str], python: Path | None
) -> None:
    def make(fresh: Path) -> None:
        packages = fresh / "python"
        packages.mkdir(parents=True)
        command = [*pip, "install", "--quiet", "--no-deps", "--no-compile", f"--target={packages}"]
        subprocess.run([*command, *options], check=True)
        _trim(packages)
        _compile(packages, python)

    _place(layer, _digest([lock, *_recipes()], extra=str(python)), make)


def _trim(packages: Path) -> None:
    for pattern in LEFT_OUT:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _engine(layer: Path, python: Path | None) -> None:
    def make(fresh: Path) -> None:
        packages = fresh / "python"
        _copy_packages(ENGINE_PACKAGES, packages)
        _describe(packages)
        _compile(packages, python)

    sources = [ROOT / "pyproject.toml", *_recipes(), *_sources(ENGINE_PACKAGES)]
    _place(layer, _digest(sources, extra=str(python)), make)


def _sources(names: Iterable[str]) -> Iterator[Path]:
    """The files of packages that are deployed."""
    for name in names:
        for path in (ROOT / name).rglob("*"):
            kept = path.suffix != ".pyc" and path.name != "py.typed"
            if kept and path.is_file() and "__pycache__" not in path.parts:
                yield path


def _copy_packages(names: Sequence[str], target: Path) -> None:
    for source in _sources(names):
        copy = target / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)


def _describe(packages: Path) -> None:
    """Say which build this is: queries pin it, so that two releases never share one query."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = [path for name in ENGINE_PACKAGES for path in (packages / name).rglob("*.py")]
    version = f"{project['version']}+{_digest(sources, base=packages)[:12]}"
    folder = packages / f"{project['name']}-{version}.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    (folder / "METADATA").write_text(metadata)


def _digest(paths: Sequence[Path], *, base: Path | None = None, extra: str = "") -> str:
    digest = hashlib.sha256(extra.encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(base or ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _compile(packages: Path, python: Path | None) -> None:
    """Compile ahead: where functions run the folder is read-only, so each cold start would again.

    Only the Python that will read the result can do it; without one the layer works, more slowly.
    """
    if python is None:
        return
    command = [str(python), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    # The path in tracebacks; the real one would make the layer depend on where it was built.
    subprocess.run([*command, "-s", str(packages), "-p", "/opt/python", str(packages)], check=True)


if __name__ == "__main__":
    main()
