"""From botocore's errors to the platform's, for every AWS adapter: the one translation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
)

from crossdock.errors import (
    ObjectExists,
    ObjectNotFound,
    PlatformDenied,
    PlatformError,
    PlatformUnavailable,
    QueueNotFound,
)


class UploadNotFound(PlatformError):
    """No such upload in parts: it was completed, or aborted. It stays inside the adapters."""


_KINDS: dict[str, type[PlatformError]] = {
    "AWS.SimpleQueueService.NonExistentQueue": QueueNotFound,
    "QueueDoesNotExist": QueueNotFound,
    # The name is free again 60 s after its deletion.
    "AWS.SimpleQueueService.QueueDeletedRecently": PlatformUnavailable,
    "QueueDeletedRecently": PlatformUnavailable,
    "404": ObjectNotFound,
    "NoSuchKey": ObjectNotFound,
    "NoSuchUpload": UploadNotFound,
    "PreconditionFailed": ObjectExists,
    "403": PlatformDenied,
    "AccessDenied": PlatformDenied,
    "AccessDeniedException": PlatformDenied,
    "AllAccessDisabled": PlatformDenied,
    "AuthFailure": PlatformDenied,
    "ExpiredToken": PlatformDenied,
    "ExpiredTokenException": PlatformDenied,
    "InvalidAccessKeyId": PlatformDenied,
    "InvalidClientTokenId": PlatformDenied,
    "InvalidSecurity": PlatformDenied,
    "SignatureDoesNotMatch": PlatformDenied,
    "UnrecognizedClientException": PlatformDenied,
    "UnauthorizedOperation": PlatformDenied,
    # Two writers of one key raced; the loser may ask again.
    "ConditionalRequestConflict": PlatformUnavailable,
    "InternalError": PlatformUnavailable,
    "InternalFailure": PlatformUnavailable,
    "KMS.ThrottlingException": PlatformUnavailable,
    "KmsThrottled": PlatformUnavailable,
    "RequestThrottled": PlatformUnavailable,
    "RequestThrottledException": PlatformUnavailable,
    "RequestTimeout": PlatformUnavailable,
    "ServiceUnavailable": PlatformUnavailable,
    "SlowDown": PlatformUnavailable,
    "Throttling": PlatformUnavailable,
    "ThrottlingException": PlatformUnavailable,
    "TooManyRequestsException": PlatformUnavailable,
}


@contextmanager
def translated(subject: str) -> Iterator[None]:
    """Turn botocore's errors into the platform's; ``subject`` names the queue or object."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise translate(error, subject) from error


def translate(error: BotoCoreError | ClientError, subject: str) -> PlatformError:
    if isinstance(error, ClientError):
        return _of_answer(error, subject)
    if isinstance(error, NoCredentialsError | CredentialRetrievalError):
        return PlatformDenied(f"{subject}: {error}; give the process AWS credentials")
    # What is left never reached the service or lost its answer: connections, timeouts, pools.
    return PlatformUnavailable(f"{subject}: {error}")


def kind_of(code: str) -> type[PlatformError]:
    """The platform's error for a service's code; ``PlatformError`` itself if it has none."""
    return _KINDS.get(code, PlatformError)


def _of_answer(error: ClientError, subject: str) -> PlatformError:
    code = error.response.get("Error", {}).get("Code", "")
    message = error.response.get("Error", {}).get("Message", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = kind_of(code)
    if kind is PlatformError and status >= 500:
        kind = PlatformUnavailable
    if kind is PlatformDenied and error.operation_name in ("GetObject", "HeadObject"):
        message += " (or no such object, and no permission to list the bucket)"
    return kind(f"{subject}: {error.operation_name} answered {code}: {message}")
