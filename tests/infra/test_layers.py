"""The built layers: small enough, for the right machine, and enough to run fragments with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import duckdb
import pytest

from crossdock.catalog import Catalog
from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import encode_plan
from crossdock.planner.planning import plan_query
from layers.build import build_layers
from layers.cold_start import Bench
from layers.inspection import folder_bytes, machines, sizes
from layers.recipes import CEILINGS, HANDLERS, ROOT, THIRD_PARTY, UNPACKED_LIMIT, Machine, Target
from tests.infra.conftest import Assembly

pytestmark = pytest.mark.xdist_group("infra")

#: Kept free for what a release adds, in bytes.
MARGIN = 25 * 1024 * 1024
#: What a handler must not load: each costs a cold start more than the handler itself.
HEAVY = {
    "api": {"duckdb", "pyarrow", "psutil"},
    "coordinator": {"pyarrow.flight"},
    "producer": {"pyarrow", "numpy", "pandas"},
    "consumer": {"pyarrow", "numpy", "pandas"},
    "janitor": {"duckdb", "pyarrow"},
}
#: A worker's part of a query, and the extensions that user's queries may need: none is fetched.
FRAGMENT = """
import sys, tempfile
from pathlib import Path
import duckdb
import crossdock.worker, crossdock.aws.workers
from crossdock.engine_build import engine_build
from crossdock.executor import Executor
from crossdock.planner.plan import decode_plan

plan = decode_plan(Path(sys.argv[1]).read_bytes())
scratch = Path(tempfile.mkdtemp())
output = Executor(scratch, 512 << 20, 1).run(plan, 0, 0, {})
print(sorted(section.partition for section in output.sections if section.rows))
files = [str(section.path) for section in output.sections if section.path]
with duckdb.connect() as connection:
    print(connection.execute("SELECT sum(c0)::BIGINT FROM read_parquet(?)", [files]).fetchall())
    print(connection.execute("SELECT '2026-01-01 00:00:00+00'::TIMESTAMPTZ::DATE").fetchall())
    print(connection.execute("SELECT json_extract('{\\"a\\": 1}', 'a')").fetchall())
print(engine_build())
"""


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench.prepare()


@pytest.fixture(scope="module", params=list(Machine))
def built(request: pytest.FixtureRequest) -> tuple[Machine, Path]:
    return request.param, build_layers(request.param)


def test_layers_and_functions_stay_below_the_limit(built: tuple[Machine, Path]) -> None:
    _, folder = built
    layers = sizes(folder)
    assert set(layers) == {"engine", *THIRD_PARTY}
    for names in HANDLERS.values():
        total = sum(layers[name] for name in names) + folder_bytes(ROOT / "functions")
        assert total <= UNPACKED_LIMIT - MARGIN


def test_every_shared_object_is_for_the_machine(built: tuple[Machine, Path]) -> None:
    machine, folder = built
    found = machines(folder)
    assert set(found.values()) == {machine.elf}
    assert any(path.name.startswith("_duckdb") for path in found)


def test_functions_run_on_the_machine_their_layers_are_for(
    assembly: Assembly, variant: Assembly
) -> None:
    for each, architecture in ((assembly, Machine.ARM64), (variant, Machine.X86_64)):
        for kind in ("AWS::Lambda::Function", "AWS::Lambda::LayerVersion"):
            for resource in each.resources(kind).values():
                properties = resource["Properties"]
                named = properties.get("Architectures") or properties["CompatibleArchitectures"]
                assert named == [architecture]


def test_fragments_run_with_only_the_layers_on_the_path(bench: Bench, tmp_path: Path) -> None:
    table = tmp_path / "numbers.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT range AS n FROM range(1000)) TO '{table}'")
    catalog = Catalog()
    catalog.add("numbers", table)
    bound = Binder(catalog).bind("SELECT n, n + 1 FROM numbers ORDER BY n % 10")
    options = PlannerOptions(workers=2, single_task_limit=0)
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode_plan(plan_query(bound, options)))
    for worker in ("producer", "consumer"):
        # The first of two tasks has the first half of the rows.
        lines = bench.run(HANDLERS[worker], FRAGMENT, str(plan)).splitlines()
        assert lines[1:4] == ["[(124750,)]", "[(datetime.date(2026, 1, 1),)]", "[('1',)]"]
        assert re.fullmatch(r"crossdock-[\d.]+\+[0-9a-f]{12}\+duckdb-[\d.]+", lines[4])


@pytest.mark.parametrize("handler", list(HANDLERS))
def test_handlers_import_from_their_layers_and_quickly(bench: Bench, handler: str) -> None:
    found = bench.measure(handler)
    assert found.modules & HEAVY[handler] == set()
    assert found.seconds < CEILINGS[handler]


def test_locks_name_every_package_with_a_version_and_a_hash() -> None:
    for machine in Machine:
        for layer in THIRD_PARTY:
            lines = Target(machine=machine).lock(layer).read_text().splitlines()[1:]
            assert lines
            for line in lines:
                assert re.fullmatch(r"[a-z0-9-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line)


def test_both_machines_get_the_same_versions() -> None:
    for layer in THIRD_PARTY:
        versions = {
            tuple(line.split()[0] for line in target.lock(layer).read_text().splitlines()[1:])
            for target in (Target(machine=machine) for machine in Machine)
        }
        assert len(versions) == 1


def test_layers_pin_the_duckdb_that_plans_are_made_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = [each for each in project["dependencies"] if each.startswith("duckdb")]
    assert pin in (ROOT / "layers" / "duckdb.in").read_text()
    assert pin in Target(machine=Machine.ARM64).lock("duckdb").read_text()
