"""S3 for processes that may never read or write there: the SDK is imported with the first."""

from __future__ import annotations

from crossdock.databases import Database
from crossdock.platform.ports import Meter
from crossdock.remote_files import Lazily, RemoteFiles
from crossdock.writes.outbox import LazyOutbox, Outbox

#: Before the name of a database.
GLUE = "glue://"


def s3_files(meter: Meter | None = None) -> RemoteFiles:
    """Endpoint, region and credentials as the SDK finds them."""

    def make() -> RemoteFiles:
        from crossdock.platform.aws.clients import make_s3_client
        from crossdock.platform.aws.table_files import S3TableFiles

        return S3TableFiles(make_s3_client(), meter=meter)

    return Lazily(make)


def glue_database(url: str | None) -> Database | None:
    """The database of a URL such as ``glue://sales``; None without one. No request is made."""
    if url is None:
        return None
    from crossdock.platform.aws.clients import make_glue_client
    from crossdock.platform.aws.glue import GlueDatabase

    return GlueDatabase(make_glue_client(), url.removeprefix(GLUE))


def s3_outbox(meter: Meter | None = None) -> Outbox:
    """Endpoint, region and credentials as the SDK finds them."""

    def make() -> Outbox:
        from crossdock.platform.aws.clients import make_s3_client
        from crossdock.platform.aws.outbox import S3Outbox

        return S3Outbox(make_s3_client(), meter=meter)

    return LazyOutbox(make)
