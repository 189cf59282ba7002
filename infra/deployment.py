"""The app: stacks in order, tags, and the checks that synth runs."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk

from infra.checks import add_checks
from infra.settings import Settings
from infra.stacks.api import ApiStack
from infra.stacks.compute import ComputeStack
from infra.stacks.queues import QueuesStack
from infra.stacks.state import StateStack


@dataclass(frozen=True, slots=True)
class Deployment:
    state: StateStack
    queues: QueuesStack
    compute: ComputeStack
    api: ApiStack

    @property
    def stacks(self) -> tuple[cdk.Stack, ...]:
        return (self.state, self.queues, self.compute, self.api)


def deploy_into(app: cdk.App, settings: Settings, *, checks: bool = True) -> Deployment:
    """Make the stacks of one deployment. They know neither account nor region."""
    name = settings.name
    state = StateStack(app, f"{name}-state", settings=settings)
    queues = QueuesStack(app, f"{name}-queues", settings=settings)
    compute = ComputeStack(app, f"{name}-compute", settings=settings, state=state, queues=queues)
    api = ApiStack(
        app, f"{name}-api", settings=settings, state=state, queues=queues, compute=compute
    )
    deployment = Deployment(state, queues, compute, api)
    cdk.Tags.of(app).add("crossdock:deployment", name)
    if checks:
        add_checks(app)
    return deployment
