"""Files on S3 for processes that may never read one: the SDK is imported with the first."""

from __future__ import annotations

from crossdock.platform.ports import Meter
from crossdock.remote_files import Lazily, RemoteFiles


def s3_files(meter: Meter | None = None) -> RemoteFiles:
    """Endpoint, region and credentials as the SDK finds them."""

    def make() -> RemoteFiles:
        from crossdock.platform.aws.clients import make_s3_client
        from crossdock.platform.aws.table_files import S3TableFiles

        return S3TableFiles(make_s3_client(), meter=meter)

    return Lazily(make)
