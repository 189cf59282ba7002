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


@pytest.fixture(scope="module")
def moto_client() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client(
            "dynamodb",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=client_config(),
        )


@pytest.fixture
def state_client(moto_client: Any) -> Iterator[Any]:
    create_table(moto_client, TABLE)
    yield moto_client
    moto_client.delete_table(TableName=TABLE)


@pytest.fixture(params=["sqlite", "dynamodb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    if request.param == "dynamodb":
        yield DynamoDbStateStore(request.getfixturevalue("state_client"), TABLE)
        return
    sqlite = SqliteStateStore(tmp_path / "state.db")
    yield sqlite
    sqlite.close()


@pytest.fixture
def dynamodb(state_client: Any) -> DynamoDbStateStore:
    return DynamoDbStateStore(state_client, TABLE)
