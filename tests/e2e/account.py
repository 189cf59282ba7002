"""``make e2e-aws``: deploys to a real account, runs every TPC-H query, and removes all of it.

That costs about a dollar, so it wants to be told where: the variables in ``VARIABLES``, and
credentials as the SDK finds them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click
import duckdb

import crossdock
from infra.teardown import Teardown
from layers.build import build_functions, build_layers
from layers.recipes import Machine
from tests.datasets import benchmark_queries, generate
from tests.e2e.answers import FORCED, TABLES, compare
from tests.e2e.deploying import CommandLine

VARIABLES = {
    "CROSSDOCK_IT_ACCOUNT": "number of the account that may be used; the credentials must be its",
    "CROSSDOCK_IT_REGION": "where to deploy; bootstrapped for the CDK",
    "CROSSDOCK_IT_BUCKET": "a bucket of yours there; files below crossdock-it/ come and go",
}
#: Of the deployment, its stacks and functions.
NAME = "crossdockit"
PREFIX = "crossdock-it"
SETTINGS = {
    "name": NAME,
    "removal": "destroy",
    "concurrency": "16",
    "query_workers": "16",
    "pool_size": "16",
    # A new account has ten at once, which cannot be set aside.
    "reserve_concurrency": "false",
    "dashboard": "false",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    account: str
    region: str
    bucket: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Place:
        """Raises ``click.UsageError`` naming every variable that is missing or no such thing."""
        missing = [
            f"{name}: {what}" for name, what in VARIABLES.items() if not environment.get(name)
        ]
        if missing:
            raise click.UsageError(
                "this deploys to a real AWS account and costs money; set\n  " + "\n  ".join(missing)
            )
        account, region, bucket = (environment[name] for name in VARIABLES)
        if not re.fullmatch(r"\d{12}", account):
            raise click.UsageError(f"CROSSDOCK_IT_ACCOUNT = {account!r}: must be 12 digits")
        return cls(account=account, region=region, bucket=bucket)


#: From a deployment's outputs to the URL of its API.
EndpointOf = Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One deployment and its end."""

    place: Place
    session: boto3.Session
    cdk: CommandLine
    endpoint_of: EndpointOf
    say: Callable[[str], Any] = click.echo

    def run(self, queries: Sequence[tuple[str, str]]) -> None:
        """Raises ``click.ClickException`` if it may not begin, or if something is left then."""
        self._check()
        try:
            folder = generate("tpch")
            self._upload(folder)
            endpoint = self.endpoint_of(self.cdk.deploy())
            self._compare(endpoint, folder, queries)
        finally:
            left = self._remove()
        if left:
            raise click.ClickException("still there: " + ", ".join(left))

    def _check(self) -> None:
        client: Any = self.session.client("sts")
        found = client.get_caller_identity()["Account"]
        if found != self.place.account:
            raise click.ClickException(
                f"the credentials are of account {found}, CROSSDOCK_IT_ACCOUNT is "
                f"{self.place.account}: nothing was made"
            )

    def _upload(self, folder: Path) -> None:
        s3: Any = self.session.client("s3")
        for table in TABLES:
            name = f"{table}.parquet"
            s3.upload_file(str(folder / name), self.place.bucket, f"{PREFIX}/{name}")

    def _compare(self, endpoint: str, folder: Path, queries: Sequence[tuple[str, str]]) -> None:
        with (
            duckdb.connect() as reference,
            crossdock.connect(endpoint=endpoint, auth="iam", **FORCED) as connection,
        ):
            for table in TABLES:
                reference.execute(f"CREATE VIEW {table} AS FROM '{folder / table}.parquet'")
                url = f"s3://{self.place.bucket}/{PREFIX}/{table}.parquet"
                connection.tables.add(table, url)
            for number, sql in queries:
                compare(connection, reference, sql)
                self.say(f"query {number}: as DuckDB")

    def _remove(self) -> list[str]:
        """Also after an error or Ctrl-C; what is left, by name."""
        teardown = Teardown(name=NAME, session=self.session, say=self.say)
        teardown.run()
        resource: Any = self.session.resource("s3")
        resource.Bucket(self.place.bucket).objects.filter(Prefix=f"{PREFIX}/").delete()
        return teardown.leftovers()


@click.command(help=__doc__)
def main() -> None:
    place = Place.of(os.environ)
    session = boto3.Session(region_name=place.region)
    build_layers(Machine.ARM64)
    build_functions()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "AWS_REGION": place.region, "AWS_DEFAULT_REGION": place.region}
        cdk = CommandLine.of(environment, Path(folder), Path(folder) / "cdk.out")
        cdk.synth({**SETTINGS, "data": f"{place.bucket}/{PREFIX}"})
        trial = Trial(
            place=place, session=session, cdk=cdk, endpoint_of=lambda outputs: outputs["Endpoint"]
        )
        trial.run(benchmark_queries("tpch"))
    click.echo("All queries as DuckDB; nothing is left.")


if __name__ == "__main__":
    main()
