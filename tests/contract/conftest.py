"""The state stores under test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from coordinator_state.dynamodb import DynamoDbStateStore, client_config, create_table
from coordinator_state.sqlite import SqliteStateStore
from coordinator_state.store import StateStore
from tests.contract.state_setup import TABLE
from tests.simulation.table import TableTwin


def client_of(service: str, **options: Any) -> Any:
    return boto3.client(
        service,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=client_config(),
        **options,
    )


@pytest.fixture(scope="module")
def moto_client() -> Iterator[Any]:
    with mock_aws():
        yield client_of("dynamodb")


@pytest.fixture
def state_client(moto_client: Any) -> Iterator[Any]:
    create_table(moto_client, TABLE)
    yield moto_client
    moto_client.delete_table(TableName=TABLE)


EMULATED = pytest.param("emulated", marks=pytest.mark.emulator)


@pytest.fixture
def emulated_client(emulator: str) -> Any:
    return client_of("dynamodb", endpoint_url=emulator)


@pytest.fixture(params=["sqlite", "dynamodb", "twin", EMULATED])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    if request.param == "dynamodb":
        yield DynamoDbStateStore(request.getfixturevalue("state_client"), TABLE)
        return
    if request.param == "twin":
        client: Any = TableTwin()
        yield DynamoDbStateStore(client, TABLE)
        return
    if request.param == "emulated":
        client = request.getfixturevalue("emulated_client")
        create_table(client, TABLE)
        yield DynamoDbStateStore(client, TABLE)
        client.delete_table(TableName=TABLE)
        return
    sqlite = SqliteStateStore(tmp_path / "state.db")
    yield sqlite
    sqlite.close()


@pytest.fixture
def dynamodb(state_client: Any) -> DynamoDbStateStore:
    return DynamoDbStateStore(state_client, TABLE)
