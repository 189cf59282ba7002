"""What ``import crossdock`` promises."""

from __future__ import annotations

import doctest
import inspect

import pytest

import crossdock


def test_all_is_sorted_and_every_name_is_there() -> None:
    names = [name for name in crossdock.__all__ if name != "__version__"]
    assert crossdock.__all__ == sorted(crossdock.__all__, key=_by_kind)
    assert [name for name in names if not hasattr(crossdock, name)] == []


def _by_kind(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the linter's order."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = crossdock.conect  # type: ignore[attr-defined]


def test_pep249_globals() -> None:
    assert (crossdock.apilevel, crossdock.threadsafety, crossdock.paramstyle) == ("2.0", 1, "qmark")


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        ("InterfaceError", "Error"),
        ("DatabaseError", "Error"),
        ("DataError", "DatabaseError"),
        ("OperationalError", "DatabaseError"),
        ("IntegrityError", "DatabaseError"),
        ("InternalError", "DatabaseError"),
        ("ProgrammingError", "DatabaseError"),
        ("NotSupportedError", "DatabaseError"),
        ("SqlError", "ProgrammingError"),
        ("TableError", "ProgrammingError"),
        ("SettingError", "ProgrammingError"),
        ("QueryFailed", "OperationalError"),
        ("QueryCancelled", "OperationalError"),
    ],
)
def test_exceptions_follow_pep249(name: str, parent: str) -> None:
    assert issubclass(getattr(crossdock, name), getattr(crossdock, parent))


def test_connect_signature_is_stable() -> None:
    parameters = inspect.signature(crossdock.connect).parameters
    assert list(parameters) == [
        "home",
        "tables",
        "workers",
        "exchange",
        "endpoint",
        "auth",
        "settings",
    ]
    assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[:-1])


def test_package_example_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(crossdock)
    assert result.attempted >= 3
    assert result.failed == 0
