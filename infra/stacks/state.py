"""What outlives a release: the state table, exchange objects, results and table definitions."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.constructs.private_bucket import PrivateBucket
from infra.constructs.state_table import StateTable
from infra.grants import EXCHANGE, EXPORT, PLAN, RECEIPT, RESULT
from infra.settings import Removal, Settings


class StateStack(Stack):
    """Kept, and protected from deletion, unless the settings say otherwise."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        keep = settings.removal is Removal.RETAIN
        super().__init__(scope, id, termination_protection=keep)
        self.table = StateTable(self, "State", keep=keep).table
        # The sweeps of a query remove its objects. Expiry is the last net, a day or more later.
        self.exchange = PrivateBucket(
            self,
            "Exchange",
            keep=keep,
            expiry={EXCHANGE: settings.exchange_days, PLAN: settings.exchange_days},
        ).bucket
        self.results = PrivateBucket(
            self,
            "Results",
            keep=keep,
            expiry=dict.fromkeys((RESULT, EXPORT, RECEIPT), settings.result_days + 1),
        ).bucket
        # Exported by hand: permissions need the ARNs as texts to append prefixes to.
        self.table_arn = self._exported(self.table.table_arn)
        self.exchange_arn = self._exported(self.exchange.bucket_arn)
        self.results_arn = self._exported(self.results.bucket_arn)
        CfnOutput(self, "TableName", value=self.table.table_name)
        CfnOutput(self, "ExchangeBucketName", value=self.exchange.bucket_name)
        CfnOutput(self, "ResultBucketName", value=self.results.bucket_name)

    def _exported(self, value: str) -> str:
        exported: str = self.export_value(value)
        return exported
