"""The HTTP API: one versioned route, never without an authorizer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

#: One line a request, without query strings: they may hold what a caller searched for.
_LOGGED = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "caller": "$context.identity.caller",
    "sourceIp": "$context.identity.sourceIp",
    "error": "$context.integrationErrorMessage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    rate: int  # requests a second
    burst: int


class QueryApi(Construct):
    """``authorizer`` is required: there is no open form of this construct."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        handler: lambda_.IFunction,
        authorizer: gateway.IHttpRouteAuthorizer,
        throttle: Throttle,
        log_retention: logs.RetentionDays,
        origins: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        self.api = gateway.HttpApi(
            self,
            "Api",
            api_name=name,
            create_default_stage=False,
            default_authorizer=authorizer,
            cors_preflight=_cors(origins) if origins else None,
        )
        self.routes = self.api.add_routes(
            path="/v1/{proxy+}",
            methods=[gateway.HttpMethod.ANY],
            authorizer=authorizer,
            integration=integrations.HttpLambdaIntegration("Handler", handler),
        )
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/apigateway/{name}",
            retention=log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=throttle.rate, burst_limit=throttle.burst),
        )
        # The L2 property is a jsii interface, which would need a class of ours to say the same.
        resource = cast(gateway.CfnStage, self.stage.node.default_child)
        resource.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.log_group.log_group_arn, format=json.dumps(_LOGGED)
        )


def iam_authorizer() -> gateway.IHttpRouteAuthorizer:
    """Requests signed by a principal that may ``execute-api:Invoke`` (SigV4)."""
    return authorizers.HttpIamAuthorizer()


def jwt_authorizer(issuer: str, audience: Sequence[str]) -> gateway.IHttpRouteAuthorizer:
    """Requests with a bearer token of ``issuer`` for one of ``audience``."""
    return authorizers.HttpJwtAuthorizer("Jwt", issuer, jwt_audience=list(audience))


def _cors(origins: Sequence[str]) -> gateway.CorsPreflightOptions:
    return gateway.CorsPreflightOptions(
        allow_origins=list(origins),
        allow_methods=[
            gateway.CorsHttpMethod.GET,
            gateway.CorsHttpMethod.POST,
            gateway.CorsHttpMethod.PUT,
            gateway.CorsHttpMethod.DELETE,
        ],
        allow_headers=["authorization", "content-type", "x-amz-date", "x-amz-security-token"],
        expose_headers=["retry-after"],
        max_age=Duration.hours(1),
    )
