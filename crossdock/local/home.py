"""A home folder: ``state.db``, ``queues.db``, ``objects/``, ``scratch/``, ``logs/``.

Client and worker processes open the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coordinator_state.sqlite import SqliteStateStore
from crossdock.cleanup import Medium
from crossdock.errors import SettingError
from crossdock.platform.local.objects import FolderObjects
from crossdock.platform.local.queues import SqliteQueues
from crossdock.platform.meter import MeteredObjects, MeteredQueues, metered_store
from crossdock.platform.ports import Meter


@dataclass(frozen=True, slots=True)
class Home:
    """Where things are."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state.db"

    @property
    def queues(self) -> Path:
        return self.folder / "queues.db"

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def scratch(self) -> Path:
        """Folders of running attempts, by query."""
        return self.folder / "scratch"

    @property
    def logs(self) -> Path:
        """What worker processes say."""
        return self.folder / "logs"

    def object_path(self, key: str) -> Path:
        """The file of an object."""
        return self.objects.joinpath(*key.split("/"))


@dataclass(frozen=True, slots=True)
class Parts:
    """One process's handles on a home."""

    store: SqliteStateStore
    queues: SqliteQueues
    medium: Medium  # the same, with requests counted

    def close(self) -> None:
        self.store.close()
        self.queues.close()


def open_parts(home: Home, meter: Meter) -> Parts:
    """State, queues and objects of ``home``, made if missing; ``meter`` counts their requests.

    Raises ``SettingError`` when a folder cannot be made.
    """
    for folder in (home.folder, home.objects, home.scratch, home.logs):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"home = {str(home.folder)!r}: cannot make the folder {folder}: {error.strerror}"
            ) from error
    store = SqliteStateStore(home.state)
    queues = SqliteQueues(home.queues)
    medium = Medium(
        metered_store(store, meter),
        MeteredQueues(queues, meter),
        MeteredObjects(FolderObjects(home.objects), meter),
    )
    return Parts(store, queues, medium)
