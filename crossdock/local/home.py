"""A home folder: ``state.db``, ``queues.db``, ``objects/``, ``scratch/``, ``logs/``.

Client and worker processes open the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coordinator_state.errors import StateError, StoreDamaged, StoreUnavailable
from coordinator_state.sqlite import SqliteStateStore
from crossdock.cleanup import Medium
from crossdock.errors import PlatformError, SettingError
from crossdock.platform.aws.on_demand import s3_outbox
from crossdock.platform.local.objects import FolderObjects
from crossdock.platform.local.outbox import FolderOutbox
from crossdock.platform.local.queues import SqliteQueues
from crossdock.platform.meter import MeteredObjects, MeteredQueues, metered_store
from crossdock.platform.ports import Meter, Objects
from crossdock.shuffle.layout import staged_key
from crossdock.writes.outbox import Outbox, OutboxByScheme, Spot


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


def make_outbox(home: Home, objects: Objects, meter: Meter | None = None) -> Outbox:
    """For folders of this machine, and for S3."""
    local = FolderOutbox(objects, home.object_path, _staged_key)
    return OutboxByScheme(remote=s3_outbox(meter), local=local)


def _staged_key(spot: Spot) -> str:
    return staged_key(spot.query_id, spot.stage, spot.index, spot.attempt, spot.number)


def open_state(home: Home) -> SqliteStateStore:
    """Raises ``SettingError`` when its file cannot be opened, ``PlatformError`` when damaged."""
    try:
        return SqliteStateStore(home.state)
    except StoreUnavailable:
        raise
    except StoreDamaged as error:
        raise PlatformError(str(error)) from error
    except StateError as error:
        raise SettingError(
            f"home = {str(home.folder)!r}: {error}; choose a folder that can be written to"
        ) from error


def open_parts(home: Home, meter: Meter) -> Parts:
    """State, queues and objects of ``home``, made if missing; ``meter`` counts their requests.

    Raises ``SettingError`` when a folder cannot be made or its files not be written.
    """
    for folder in (home.folder, home.objects, home.scratch, home.logs):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"home = {str(home.folder)!r}: cannot make the folder {folder}: {error.strerror}"
            ) from error
    store = open_state(home)
    queues = SqliteQueues(home.queues)
    objects = MeteredObjects(FolderObjects(home.objects), meter)
    medium = Medium(
        metered_store(store, meter),
        MeteredQueues(queues, meter),
        objects,
        make_outbox(home, objects, meter),
    )
    return Parts(store, queues, medium)
