"""Settings: reading, bounds, messages, and where values come from."""

from __future__ import annotations

import pytest

from crossdock.errors import SettingError
from crossdock.settings import FIELDS, Exchange, Settings, from_environment, with_values

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("workers", 3, 3),
        ("workers", " 3 ", 3),
        ("workers", "auto", None),
        ("workers", None, None),
        ("worker_memory", 100_000_000, 100_000_000),
        ("worker_memory", "100000000", 100_000_000),
        ("worker_memory", "64MiB", 64 * MIB),
        ("worker_memory", "100MB", 100_000_000),
        ("worker_memory", "1.5 GiB", 1536 * MIB),
        ("worker_memory", "2g", 2_000_000_000),
        ("single_task_bytes", "0", 0),
        ("broadcast_bytes", "1k", 1000),
        ("lease_seconds", "1.5s", 1.5),
        ("lease_seconds", "200ms", 0.2),
        ("lease_seconds", 7, 7.0),
        ("timeout_seconds", "2m", 120.0),
        ("timeout_seconds", "1h", 3600.0),
        ("exchange", "BATCH", Exchange.BATCH),
        ("exchange", Exchange.S3QS, Exchange.S3QS),
        ("timezone", " Europe/Berlin ", "Europe/Berlin"),
    ],
)
def test_values_are_read(name: str, value: object, expected: object) -> None:
    assert getattr(with_values(Settings(), {name: value}), name) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", 0),
        ("workers", -1),
        ("workers", 1.0),
        ("workers", True),
        ("workers", ""),
        ("workers", "2 workers"),
        ("workers", "9" * 30),
        ("worker_threads", None),
        ("worker_memory", "64M B"),
        ("worker_memory", "12ib"),
        ("worker_memory", "63MiB"),
        ("worker_memory", "-1GB"),
        ("worker_memory", "nan"),
        ("lease_seconds", float("nan")),
        ("lease_seconds", float("inf")),
        ("lease_seconds", 0),
        ("lease_seconds", "1 day"),
        ("max_attempts", 0),
        ("partitions", 4097),
        ("exchange", ""),
        ("exchange", None),
        ("timezone", "  "),
        ("timezone", 7),
    ],
)
def test_bad_value_is_named_with_what_is_allowed(name: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        with_values(Settings(), {name: value})
    field = next(field for field in FIELDS if field.name == name)
    assert str(caught.value) == f"{name} = {value!r}: must be {field.allowed}"


def test_unknown_setting_gets_the_nearest_name() -> None:
    with pytest.raises(SettingError, match="'max_attempt': did you mean 'max_attempts'"):
        with_values(Settings(), {"max_attempt": 2})


def test_variables_are_read_and_strangers_left_alone() -> None:
    environment = {
        "CROSSDOCK_WORKERS": "3",
        "CROSSDOCK_BROADCAST_BYTES": "0",
        "CROSSDOCK_HOME": "/elsewhere",
        "CROSSDOCK_TABLE_NAME": "somebody else's",
        "WORKERS": "9",
    }
    assert from_environment(environment) == Settings(workers=3, broadcast_bytes=0)


def test_misspelt_or_bad_variable_is_named() -> None:
    with pytest.raises(SettingError, match="CROSSDOCK_WORKRES: did you mean CROSSDOCK_WORKERS"):
        from_environment({"CROSSDOCK_WORKRES": "3"})
    with pytest.raises(SettingError, match="variable CROSSDOCK_WORKERS: workers = 'many'"):
        from_environment({"CROSSDOCK_WORKERS": "many"})


def test_every_setting_has_a_field_and_its_default_is_allowed() -> None:
    defaults = Settings()
    assert [field.name for field in FIELDS] == list(Settings.__dataclass_fields__)
    for field in FIELDS:
        value = getattr(defaults, field.name)
        assert field.parse(value) == value


def test_derived_limits_share_the_machine() -> None:
    settings = Settings(workers=4, worker_memory=100 * MIB)
    assert settings.single_task_limit == 400 * MIB
    assert Settings(workers=4, single_task_bytes=0).single_task_limit == 0
    assert Settings(workers=2).memory_per_worker >= Settings(workers=4).memory_per_worker
