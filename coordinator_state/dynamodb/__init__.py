"""The state store in one DynamoDB table."""

from coordinator_state.dynamodb.store import DynamoDbStateStore
from coordinator_state.dynamodb.table import client_config, create_table

__all__ = ["DynamoDbStateStore", "client_config", "create_table"]
