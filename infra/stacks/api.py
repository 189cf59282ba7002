"""The HTTP API, and what watches the deployment."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.constructs.monitoring import Monitoring, Watched
from infra.constructs.query_api import QueryApi, Throttle, iam_authorizer, jwt_authorizer
from infra.retention import retention
from infra.settings import Auth, Settings
from infra.stacks.compute import ComputeStack
from infra.stacks.queues import QueuesStack
from infra.stacks.state import StateStack


class ApiStack(Stack):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        state: StateStack,
        queues: QueuesStack,
        compute: ComputeStack,
    ) -> None:
        super().__init__(scope, id)
        self.query_api = QueryApi(
            self,
            "QueryApi",
            name=settings.name,
            handler=compute.api.target,
            authorizer=(
                iam_authorizer()
                if settings.auth is Auth.IAM
                else jwt_authorizer(settings.jwt_issuer, settings.jwt_audience)
            ),
            throttle=Throttle(rate=settings.throttle_rate, burst=settings.throttle_burst),
            log_retention=retention(settings.log_days),
            origins=settings.cors_origins,
        )
        api = self.query_api.api
        watched = Watched(
            name=settings.name,
            functions={each.spec.name: each.function for each in compute.all},
            workers=frozenset(each.spec.name for each in (*compute.producers, *compute.consumers)),
            control=queues.control,
            dead_letters={"control": queues.control_dead_letters, "failures": queues.failures},
            table=state.table,
            api=api,
        )
        Monitoring(
            self,
            "Monitoring",
            watched=watched,
            topic_arn=settings.alarm_topic_arn,
            dashboard=settings.dashboard,
        )
        CfnOutput(self, "Endpoint", value=api.api_endpoint)
        CfnOutput(self, "ApiId", value=api.api_id)
        CfnOutput(
            self,
            "CallersMayInvoke",
            description="resource of execute-api:Invoke in the policy of a caller",
            value=self.format_arn(
                service="execute-api", resource=api.api_id, resource_name="$default/*/v1/*"
            ),
        )
