"""Layer versions of the built folders."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import assets
from infra.constructs.engine_function import RUNTIME
from infra.settings import Settings


class Layers(Construct):
    """``versions`` by name. Functions list those they need: the API needs no DuckDB."""

    def __init__(
        self, scope: Construct, id: str, *, settings: Settings, architecture: lambda_.Architecture
    ) -> None:
        super().__init__(scope, id)
        self.versions: Mapping[str, lambda_.LayerVersion] = {
            name: lambda_.LayerVersion(
                self,
                name.capitalize(),
                layer_version_name=f"{settings.name}-{name}",
                code=lambda_.Code.from_asset(assets.layer_path(settings, name)),
                compatible_runtimes=[RUNTIME],
                compatible_architectures=[architecture],
                removal_policy=RemovalPolicy.DESTROY,
            )
            for name in assets.LAYERS
        }
