"""A bucket nobody outside the account reads, whose objects expire."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.checks import accept


class PrivateBucket(Construct):
    """``expiry``: days until objects below a prefix expire; what no prefix covers stays.

    Deleting the stack never empties the bucket: ``make destroy`` does, after the writers are gone,
    so that a late writer cannot fill it again in between.
    """

    def __init__(self, scope: Construct, id: str, *, keep: bool, expiry: Mapping[str, int]) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="unfinished-uploads",
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                ),
                *(
                    s3.LifecycleRule(
                        id=f"expire-{prefix.strip('/')}",
                        prefix=prefix,
                        expiration=Duration.days(days),
                    )
                    for prefix, days in expiry.items()
                ),
            ],
        )
        accept(
            self.bucket,
            "AwsSolutions-S1",
            because="Objects live for minutes and only functions reach them. A log line for each "
            "ranged read would cost more than the read; CloudTrail data events can be enabled.",
        )
