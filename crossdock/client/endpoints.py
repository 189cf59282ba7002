"""Which deployment a command or connection means, from what was given and the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crossdock.client.credentials import Auth, signer

if TYPE_CHECKING:
    from crossdock.client.http import HttpApi

#: Address of a deployment, for whoever gives neither an endpoint nor a home folder.
ENDPOINT_VARIABLE = "CROSSDOCK_ENDPOINT"


def chosen_endpoint(endpoint: str | None, home: object) -> str | None:
    """What was given; else, when no home folder was, what the environment says."""
    return endpoint or (None if home else os.environ.get(ENDPOINT_VARIABLE) or None)


def http_api(endpoint: str, auth: Auth | None) -> HttpApi:
    """The API of an endpoint, signed as the environment says unless ``auth`` does."""
    from crossdock.client.http import HttpApi

    return HttpApi(endpoint, signer(auth, os.environ))
