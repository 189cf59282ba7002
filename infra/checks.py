"""cdk-nag, and how a finding is accepted: next to what causes it, with a reason."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import cdk_nag
from constructs import IConstruct


def add_checks(app: cdk.App) -> None:
    """Let synth fail on every finding that nobody accepted."""
    cdk.Validations.of(app).add_plugins(
        cdk_nag.AwsSolutionsChecks(app), cdk_nag.ServerlessChecks(app)
    )


def accept(construct: IConstruct, rules: str, *, because: str) -> None:
    """Accept findings of ``construct`` and what is below it; ``rules`` are separated by blanks."""
    for rule in rules.split():
        _acknowledge(construct, rule, because)


def accept_wildcard(role: IConstruct, resource: str, *, because: str) -> None:
    """Accept one resource with a ``*`` in the policies of ``role``, and no other."""
    shown = _flat(cdk.Stack.of(role).resolve(resource))
    _acknowledge(role, f"AwsSolutions-IAM5[Resource::{shown}]", because)


def _acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    pack = rule.partition("-")[0]
    acknowledgment = cdk.Acknowledgment(id=f"{pack}::{rule}", reason=reason)
    cdk.Validations.of(construct).acknowledge(acknowledgment)


def _flat(value: Any) -> str:
    """A resolved reference as cdk-nag writes it."""
    match value:
        case str():
            return value
        case {"Fn::Join": [delimiter, items]}:
            return str(delimiter).join(_flat(item) for item in items)
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return _flat(name)
        case {"Ref": name}:
            return f"<{name}>"
    return json.dumps(value, separators=(",", ":"))
