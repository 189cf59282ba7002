"""The state table, with the names the code uses."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from coordinator_state import schema


class StateTable(Construct):
    """On demand, recoverable to any second of 35 days, encrypted; nothing to pay while idle."""

    def __init__(self, scope: Construct, id: str, *, keep: bool) -> None:
        super().__init__(scope, id)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_text(schema.PARTITION_KEY),
            sort_key=_text(schema.SORT_KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=schema.TTL_ATTRIBUTE,
            deletion_protection=keep,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        self.table.add_global_secondary_index(
            index_name=schema.QUERY_INDEX,
            partition_key=_text(schema.LISTING_ATTRIBUTE),
            sort_key=_text(schema.LISTING_SORT_ATTRIBUTE),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(schema.QUERY_INDEX_PROJECTION),
        )


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType(_TYPES[schema.KEY_TYPE]))


_TYPES = {"S": "STRING", "N": "NUMBER", "B": "BINARY"}
