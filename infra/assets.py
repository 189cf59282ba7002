"""Prebuilt folders that stacks take as assets. Building is not synth's work: see ``layers/``."""

from __future__ import annotations

from pathlib import Path

from infra.settings import Settings, SettingsError

#: Layers by name, in search order; the engine comes first so that nothing can shadow it.
LAYERS = ("engine", "base", "duckdb", "arrow")


def layer_path(settings: Settings, name: str) -> str:
    return _built(Path(settings.layer_folder) / name)


def functions_path(settings: Settings) -> str:
    return _built(Path(settings.functions))


def _built(folder: Path) -> str:
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not there; run `make layers` first")
    return str(folder)
