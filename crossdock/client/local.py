"""The driver of this machine: its own catalog, binder and worker processes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from crossdock.catalog import Catalog, Source
from crossdock.client.drivers import Parameters, Run, Wishes
from crossdock.client.runs import DistributedRun, OneTaskRun
from crossdock.client.statements import Room
from crossdock.executor.engine import Spare
from crossdock.executor.remote import RemoteSources
from crossdock.local.home import Home, make_outbox
from crossdock.local.written import HomeTables
from crossdock.owner import client_folder
from crossdock.planner.binder import Binder
from crossdock.planner.changes import Changes
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from crossdock.platform.aws.on_demand import glue_database, s3_files
from crossdock.platform.local.objects import FolderObjects
from crossdock.settings import Settings
from crossdock.writes.outbox import LazyOutbox, Outbox
from crossdock.writes.planning import WritePlanner

if TYPE_CHECKING:
    from crossdock.local import LocalPlatform


class LocalDriver:
    """Queries on this machine (``drivers.Driver``). The platform opens at its first use."""

    def __init__(self, home: Path, settings: Settings, tables: Mapping[str, Source]) -> None:
        self.home = home
        self.settings = settings
        self._scratch = home / "scratch" / client_folder()
        self._remote = s3_files()
        self._written = HomeTables(Home(home))
        self.tables = Catalog(
            home,
            remote=self._remote,
            written=self._written,
            database=glue_database(settings.catalog),
        )
        self._binder = Binder(self.tables, timezone=settings.timezone)
        self._changes = Changes(self.tables, self._binder, sessions=True)
        self._writes = WritePlanner(self.tables, self._binder, LazyOutbox(self._outbox), local=True)
        self._platform: LocalPlatform | None = None
        self._spare = Spare()
        self._lock = threading.Lock()  # binding and opening are one at a time
        try:
            for name, source in tables.items():
                self.tables.add(name, source)
        except BaseException:
            self.tables.close()
            raise

    def begin(self, sql: str, parameters: Parameters | None, wishes: Wishes) -> Run:
        with self._lock:
            prepared = self._changes.prepare(sql, parameters)
            prepared.apply()
        plan = self.explain(prepared.query, parameters)
        alone = plan.one_task and plan.write is None
        kind = OneTaskRun if alone else DistributedRun
        return kind(self.platform, plan, self._room(everything=alone), wishes)

    def explain(self, sql: str, parameters: Parameters | None) -> StagePlan:
        with self._lock:
            plan = self._writes.plan(sql, parameters, self._options())
            return plan or plan_query(self._binder.bind(sql, parameters), self._options())

    @property
    def platform(self) -> LocalPlatform:
        """Opened at its first use."""
        with self._lock:
            if self._platform is None:
                from crossdock.local import LocalPlatform  # heavy: not for `tables list`

                self._spare.prepare()
                self._platform = LocalPlatform(self.home, self.settings)
            return self._platform

    def close(self) -> None:
        if self._platform is not None:
            self._platform.close()
        self._spare.close()
        self._binder.close()
        self.tables.close()
        self._written.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _outbox(self) -> Outbox:
        home = Home(self.home)
        return make_outbox(home, FolderObjects(home.objects))

    def _room(self, *, everything: bool) -> Room:
        """What a statement of this process may use; beside workers, one worker's share."""
        workers = self.settings.worker_count if everything else 1
        return Room(
            scratch=self._scratch,
            threads=workers * self.settings.worker_threads,
            memory=workers * self.settings.memory_per_worker,
            sources=RemoteSources(self._remote),
            spare=self._spare,
        )

    def _options(self) -> PlannerOptions:
        return PlannerOptions(
            workers=self.settings.worker_count,
            partitions=self.settings.partitions,
            single_task_limit=self.settings.single_task_limit,
            broadcast_bytes=self.settings.broadcast_bytes,
        )
