"""S3 for processes that may never read or write there: the SDK is imported with the first."""

from __future__ import annotations

from crossdock.platform.ports import Meter
from crossdock.remote_files import Lazily, RemoteFiles
from crossdock.writes.outbox import LazyOutbox, Outbox


def s3_files(meter: Meter | None = None) -> RemoteFiles:
    """Endpoint, region and credentials as the SDK finds them."""

    def make() -> RemoteFiles:
        from crossdock.platform.aws.clients import make_s3_client
        from crossdock.platform.aws.table_files import S3TableFiles

        return S3TableFiles(make_s3_client(), meter=meter)

    return Lazily(make)


def s3_outbox(meter: Meter | None = None) -> Outbox:
    """Endpoint, region and credentials as the SDK finds them."""

    def make() -> Outbox:
        from crossdock.platform.aws.clients import make_s3_client
        from crossdock.platform.aws.outbox import S3Outbox

        return S3Outbox(make_s3_client(), meter=meter)

    return LazyOutbox(make)
