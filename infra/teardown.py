"""``python -m infra.teardown``: remove a deployment and everything it made.

Order matters: functions and their roles go first, so that nobody can write any more, then what they
wrote, then what it was written to. Only buckets of the state stack are emptied; a user's data is in
others, which no role of a deployment may write to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import click
from botocore.exceptions import ClientError

TAG = "crossdock:deployment"
#: Stacks in the order in which they can be deleted.
STACKS = ("api", "compute", "queues", "state")


@click.command(help=__doc__)
@click.option("--name", default="crossdock", show_default=True, help="Of the deployment.")
@click.option("--keep-data", is_flag=True, help="Leave the state stack, its table and buckets.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def main(name: str, keep_data: bool, yes: bool) -> None:
    what = "functions, queues and API" if keep_data else "everything, results included,"
    if not yes:
        click.confirm(f"Remove {what} of the deployment {name!r}?", abort=True)
    teardown = Teardown(name=name, session=boto3.Session(), say=click.echo)
    teardown.run(keep_data=keep_data)
    left = teardown.leftovers(keep_data=keep_data)
    if left:
        raise click.ClickException("still there: " + ", ".join(left))
    click.echo("Nothing is left.")


@dataclass(frozen=True, kw_only=True)
class Teardown:
    """Removes one deployment; running it again continues where it stopped."""

    name: str
    session: boto3.Session
    say: Callable[[str], Any] = field(default=lambda text: None)

    def run(self, *, keep_data: bool = False) -> None:
        kept = () if keep_data else self._state()
        for stack in STACKS[:2]:
            self._delete_stack(stack)
        self._delete_made_queues()
        self._delete_stack("queues")
        if not keep_data:
            self._delete_state(kept)
        self._delete_logs()

    def leftovers(self, *, keep_data: bool = False) -> list[str]:
        """What there still is, by name: stacks, queues, log groups, tables and buckets."""
        stacks = STACKS[:3] if keep_data else STACKS
        found = [f"{self.name}-{stack}" for stack in stacks if self._exists(stack)]
        found += [url.rpartition("/")[2] for url in self._queues(f"{self.name}-")]
        found += self._log_groups()
        if not keep_data:
            found += [name for _, name in self._tagged()]
        return sorted(set(found))

    # -- stacks ----------------------------------------------------------------------------------
    @property
    def _stacks(self) -> Any:
        return self.session.client("cloudformation")

    def _exists(self, stack: str) -> bool:
        try:
            found = self._stacks.describe_stacks(StackName=f"{self.name}-{stack}")["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return False
            raise
        return any(each["StackStatus"] != "DELETE_COMPLETE" for each in found)

    def _delete_stack(self, stack: str) -> None:
        name = f"{self.name}-{stack}"
        if not self._exists(stack):
            return
        self.say(f"Deleting stack {name}")
        client = self._stacks
        client.delete_stack(StackName=name)
        client.get_waiter("stack_delete_complete").wait(
            StackName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 450}
        )

    # -- what outlives its stack -----------------------------------------------------------------
    def _state(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of tables and buckets: the state stack's, and those a stack left behind."""
        found = set(self._tagged())
        if self._exists("state"):
            resources = self._stacks.describe_stack_resources(StackName=f"{self.name}-state")
            for resource in resources["StackResources"]:
                kind = _KINDS.get(resource["ResourceType"])
                if kind and resource.get("PhysicalResourceId"):
                    found.add((kind, resource["PhysicalResourceId"]))
        return tuple(sorted(found))

    def _tagged(self) -> list[tuple[str, str]]:
        """Tables and buckets that the state stack made, whether or not it is still there.

        Looked up one by one: the account's index of tags lags behind.
        """
        prefix = f"{self.name}-state-"
        return [("table", name) for name in self._tables(prefix)] + [
            ("bucket", name) for name in self._buckets(prefix)
        ]

    def _tables(self, prefix: str) -> Iterator[str]:
        client = self.session.client("dynamodb")
        for page in client.get_paginator("list_tables").paginate():
            for name in page["TableNames"]:
                if name.startswith(prefix):
                    arn = client.describe_table(TableName=name)["Table"]["TableArn"]
                    tags = client.list_tags_of_resource(ResourceArn=arn)["Tags"]
                    if self._ours(tags):
                        yield name

    def _buckets(self, prefix: str) -> Iterator[str]:
        client = self.session.client("s3")
        for bucket in client.list_buckets()["Buckets"]:
            name = bucket["Name"]
            if name.startswith(prefix) and self._ours(self._bucket_tags(name)):
                yield name

    def _bucket_tags(self, name: str) -> Any:
        try:
            return self.session.client("s3").get_bucket_tagging(Bucket=name)["TagSet"]
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchTagSet", *_ABSENT}:
                return ()
            raise

    def _ours(self, tags: Any) -> bool:
        return any(tag["Key"] == TAG and tag["Value"] == self.name for tag in tags)

    def _is_there(self, kind: str, name: str) -> bool:
        try:
            if kind == "table":
                self.session.client("dynamodb").describe_table(TableName=name)
            else:
                self.session.client("s3").head_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return False
            raise
        return True

    def _delete_state(self, kept: tuple[tuple[str, str], ...]) -> None:
        for kind, name in kept:
            if kind == "bucket" and self._is_there(kind, name):
                self._empty(name)
        if self._exists("state"):
            self._stacks.update_termination_protection(
                StackName=f"{self.name}-state", EnableTerminationProtection=False
            )
            self._unprotect(name for kind, name in kept if kind == "table")
        self._delete_stack("state")
        for kind, name in kept:
            if self._is_there(kind, name):
                self.say(f"Deleting {kind} {name}")
                self._delete_kept(kind, name)

    def _unprotect(self, tables: Iterable[str]) -> None:
        for name in tables:
            if self._is_there("table", name):
                self.session.client("dynamodb").update_table(
                    TableName=name, DeletionProtectionEnabled=False
                )

    def _delete_kept(self, kind: str, name: str) -> None:
        if kind == "table":
            self._unprotect([name])
            client = self.session.client("dynamodb")
            client.delete_table(TableName=name)
            client.get_waiter("table_not_exists").wait(TableName=name)
        else:
            self._empty(name)
            self.session.client("s3").delete_bucket(Bucket=name)

    def _empty(self, name: str) -> None:
        self.say(f"Emptying bucket {name}")
        bucket = self.session.resource("s3").Bucket(name)
        bucket.objects.all().delete()
        for upload in bucket.multipart_uploads.all():
            upload.abort()

    # -- queues and logs -------------------------------------------------------------------------
    def _queues(self, prefix: str) -> list[str]:
        pages = self.session.client("sqs").get_paginator("list_queues")
        found = pages.paginate(QueueNamePrefix=prefix)
        return [url for page in found for url in page.get("QueueUrls", [])]

    def _delete_made_queues(self) -> None:
        """Shuffle queues that queries made on demand belong to no stack."""
        client = self.session.client("sqs")
        for url in self._queues(f"{self.name}-q-"):
            client.delete_queue(QueueUrl=url)

    def _log_groups(self) -> list[str]:
        pages = self.session.client("logs").get_paginator("describe_log_groups")
        api = f"/aws/apigateway/{self.name}"
        functions = f"/aws/lambda/{self.name}-"
        names = [
            group["logGroupName"]
            for prefix in (api, functions)
            for page in pages.paginate(logGroupNamePrefix=prefix)
            for group in page["logGroups"]
        ]
        return [name for name in names if name == api or name.startswith(functions)]

    def _delete_logs(self) -> None:
        """An invocation that ended late may have made its log group once more."""
        for name in self._log_groups():
            self.session.client("logs").delete_log_group(logGroupName=name)


_KINDS = {"AWS::DynamoDB::Table": "table", "AWS::S3::Bucket": "bucket"}
_ABSENT = frozenset({"404", "NoSuchBucket", "ResourceNotFoundException"})


if __name__ == "__main__":
    main()
