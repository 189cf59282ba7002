"""CDK app: reads the settings, makes the stacks, synthesizes."""

from __future__ import annotations

import aws_cdk as cdk

from infra.deployment import deploy_into
from infra.settings import Settings

app = cdk.App()
deploy_into(app, Settings.from_context(app.node.get_all_context()))
app.synth()
