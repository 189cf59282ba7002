"""Table definitions as objects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from crossdock.aws.tables import ObjectRegistry
from crossdock.errors import TableError
from crossdock.platform.memory import MemoryObjects
from crossdock.tables import Entry


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def entry(name: str, *sources: str) -> Entry:
    return Entry(name=name, sources=sources or (f"s3://data/{name}",))


def test_an_entry_is_seen_by_every_process_and_by_any_case(objects: MemoryObjects) -> None:
    ObjectRegistry(objects).put(entry("Orders"))
    assert ObjectRegistry(objects).entries() == {"orders": entry("Orders")}


def test_a_replaced_entry_leaves_one_object(objects: MemoryObjects) -> None:
    registry = ObjectRegistry(objects)
    for source in ("s3://a", "s3://b", "s3://c"):
        registry.put(entry("t", source))
    assert registry.entries()["t"].sources == ("s3://c",)
    assert len(objects.list("tables/")) == 1


def test_the_highest_version_counts_when_the_older_could_not_be_deleted(
    objects: MemoryObjects,
) -> None:
    registry = ObjectRegistry(objects)
    registry.put(entry("t", "s3://old"))
    (old,) = objects.list("tables/")
    data = objects.get(old.key)
    registry.put(entry("t", "s3://new"))
    objects.put(old.key, data)
    assert ObjectRegistry(objects).entries()["t"].sources == ("s3://new",)


def test_of_many_who_replace_at_once_one_entry_is_left(objects: MemoryObjects) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ObjectRegistry(objects).put(entry("t", f"s3://{n}")), range(8)))
    assert set(ObjectRegistry(objects).entries()) == {"t"}
    ObjectRegistry(objects).put(entry("t", "s3://last"))
    assert ObjectRegistry(objects).entries()["t"].sources == ("s3://last",)
    assert len(objects.list("tables/")) == 1


def test_a_removed_entry_is_gone(objects: MemoryObjects) -> None:
    registry = ObjectRegistry(objects)
    registry.put(entry("t"))
    assert registry.remove("T")
    assert not registry.remove("T")
    assert registry.entries() == {}


@pytest.mark.parametrize("name", ["with space", "a/b", "é", 'quo"te', "s/../x", "%"])
def test_a_name_may_hold_anything(objects: MemoryObjects, name: str) -> None:
    registry = ObjectRegistry(objects)
    registry.put(entry(name, "s3://data/x"))
    assert [found.name for found in ObjectRegistry(objects).entries().values()] == [name]


def test_an_entry_replaced_while_it_is_read_is_found(objects: MemoryObjects) -> None:
    registry = ObjectRegistry(objects)
    registry.put(entry("t", "s3://old"))
    real = objects.list
    first = real("tables/")
    registry.put(entry("t", "s3://new"))
    answers = iter([first])
    objects.list = lambda prefix: next(answers, None) or real(prefix)  # type: ignore[method-assign]
    assert ObjectRegistry(objects).entries()["t"].sources == ("s3://new",)


def test_a_damaged_definition_is_named(objects: MemoryObjects) -> None:
    objects.put("tables/t/0000000001.json", b"{")
    with pytest.raises(TableError, match=r"tables/t/0000000001\.json is damaged"):
        ObjectRegistry(objects).entries()
