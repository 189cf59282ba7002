"""The HTTP API's parts on AWS; nothing here imports the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from crossdock.api.api import Api
from crossdock.api.messages import Action, Answer, decode_answer
from crossdock.api.ports import Others
from crossdock.api.queries import Queries
from crossdock.api.results import Results
from crossdock.errors import InternalError, PlatformUnavailable
from crossdock.platform.aws.errors import translate

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client

    from crossdock.aws import Deployment


class FunctionDesk:
    """The desk as a function that is called and waited for (``messages.Desk``)."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        """``client`` must not retry: a call that was asked twice may run twice."""
        self._client = client
        self._function = function

    def perform(self, action: Action) -> Answer:
        """Raises ``PlatformUnavailable`` when it is throttled, late, or died on the way."""
        what = f"function {self._function}"
        try:
            reply = self._client.invoke(
                FunctionName=self._function, Payload=msgspec.json.encode(action)
            )
            payload = reply["Payload"].read()
        except (BotoCoreError, ClientError) as error:
            raise translate(error, what) from error
        if reply.get("FunctionError"):
            raise _died(what, payload)
        return decode_answer(payload)


class _Death(msgspec.Struct, rename="camel"):
    """What Lambda says of an invocation that did not return."""

    error_type: str = ""


def _died(what: str, payload: bytes) -> Exception:
    """Without Lambda's message: it may hold text of a statement."""
    try:
        kind = msgspec.json.decode(payload, type=_Death).error_type
    except msgspec.MsgspecError:
        kind = ""
    if kind.startswith(("Sandbox.", "Runtime.")) or not kind:
        return PlatformUnavailable(f"{what} did not end in time, or its process died; ask again")
    if kind in ("PlatformUnavailable", "StoreUnavailable"):
        return PlatformUnavailable(f"{what} could not reach a service; ask again")
    return InternalError(f"{what} failed: {kind}; its log says where")


class S3Presigner:
    """Addresses signed with this process's credentials (``ports.Presigner``)."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def url(self, key: str, *, seconds: int) -> str:
        """It ends with the credentials, if they end sooner."""
        place = {"Bucket": self._bucket, "Key": key}
        return self._client.generate_presigned_url("get_object", Params=place, ExpiresIn=seconds)


def make_api(deployment: Deployment, others: Others) -> Api:
    """The API of a deployment."""
    config, medium = deployment.config, deployment.medium
    desk = FunctionDesk(deployment.clients.functions, config.coordinator_function)
    queries = Queries(
        medium.store,
        medium.objects,
        desk=desk,
        control=deployment.control,
        clock=deployment.clock,
        others=others,
    )
    presigner = S3Presigner(deployment.clients.s3, config.result_bucket)
    return Api(queries, Results(queries, medium.objects, desk=desk, presigner=presigner), desk)
