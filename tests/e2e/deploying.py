"""Deploying the synthesized app: with the CDK command line, or quickly without it."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from infra.teardown import Teardown
from tests.e2e.stand import (
    ACCOUNT,
    REGION,
    Session,
    Stand,
    child_environment,
    path_with_node,
)

ROOT = Path(__file__).resolve().parent.parent.parent
CDK = ROOT / ".node" / "node_modules" / ".bin" / "cdk"
LOCK = ROOT / ".data" / "node.lock"
#: In order of deployment.
STACKS = ("state", "queues", "compute", "api")
#: Small enough for a laptop: each invocation in flight is a process.
SMALL = {
    "architecture": "x86_64",  # the emulator runs whatever this machine is
    "layers": f"build/layers/native-{sys.version_info.major}.{sys.version_info.minor}",
    "concurrency": "8",
    "query_workers": "4",
    "coordinator_concurrency": "8",
    "api_concurrency": "16",
    "open_queries": "20",
    "producer_memory_mb": "1024",
    "consumer_memory_mb": "1024",
    "pool_size": "8",
    "throttle_rate": "1000",
    "throttle_burst": "1000",
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A deployment on a stand."""

    stand: Stand
    name: str
    outputs: Mapping[str, str]  # of all stacks; their names do not clash

    @property
    def endpoint(self) -> str:
        """URL of the HTTP API: the form that needs no name resolution."""
        return f"{self.stand.url}/_aws/execute-api/{self.outputs['ApiId']}"

    @cached_property
    def session(self) -> Session:
        return self.stand.session()

    def function(self, name: str) -> str:
        """Physical name of a function, as ``producer-0``."""
        return f"{self.name}-{name}"

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        credentials: Credentials | None = None,
        signed: bool = True,
    ) -> Answer:
        """One signed request of the API; any status is an answer. Bytes are sent as they are."""
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        headers = {"content-type": "application/json"}
        request = AWSRequest(method, self.endpoint + path, headers, data)
        if signed:
            keys = credentials or Credentials("test", "test")
            SigV4Auth(keys, "execute-api", REGION).add_auth(request)
        prepared = request.prepare()
        found = self._pool.request(
            method, prepared.url, body=data, headers=dict(prepared.headers.items())
        )
        return Answer(found.status, dict(found.headers), found.data)

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        certificate = self.stand.certificate
        return urllib3.PoolManager(
            maxsize=32,
            retries=False,
            timeout=60.0,
            ca_certs=str(certificate) if certificate else None,
        )

    def teardown(self) -> Teardown:
        return Teardown(name=self.name, session=self.session)


def build() -> None:
    """Layers for the emulator's interpreter, which is this one, and function code."""
    subprocess.run([sys.executable, "-m", "layers.build", "--native"], cwd=ROOT, check=True)


def synth(folder: Path, **settings: str) -> Path:
    """Build and synthesize with the command line; the assembly, good for any stand."""
    build()
    nowhere = Stand(url="http://127.0.0.1:9")  # a synth that asks AWS for anything fails
    cdk = CommandLine.installed(nowhere, folder, folder / "cdk.out")
    cdk.synth({**SMALL, **settings})
    return cdk.assembly


def quick_synth(folder: Path, **settings: str) -> Path:
    """The same without the command line, and so without npm."""
    build()
    assembly = folder / "cdk.out"
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    context |= {f"crossdock:{key}": value for key, value in {**SMALL, **settings}.items()}
    subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        check=True,
        env={
            "PATH": path_with_node(),
            "HOME": str(folder),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            "CDK_OUTDIR": str(assembly),
            "CDK_CONTEXT_JSON": json.dumps(context),
        },
    )
    return assembly


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """The CDK command line."""

    home: Path
    assembly: Path  # where the app is synthesized to, and deployed from
    environment: Mapping[str, str]  # all of it: whom it talks to, as whom

    @classmethod
    def installed(cls, stand: Stand, home: Path, assembly: Path) -> CommandLine:
        """Pointed at a stand."""
        return cls.of(child_environment(stand, home), home, assembly)

    @classmethod
    def of(cls, environment: Mapping[str, str], home: Path, assembly: Path) -> CommandLine:
        LOCK.parent.mkdir(exist_ok=True)
        with LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            subprocess.run(["make", "--silent", "cdk"], cwd=ROOT, check=True)
        return cls(home=home, assembly=assembly, environment=environment)

    def synth(self, settings: Mapping[str, str]) -> None:
        options = [f"--context=crossdock:{key}={value}" for key, value in settings.items()]
        app = f"{sys.executable} app.py"
        self._run(
            "synth", "--all", "--quiet", f"--output={self.assembly}", f"--app={app}", *options
        )

    def bootstrap(self, place: str = f"aws://{ACCOUNT}/{REGION}") -> None:
        self._run("bootstrap", f"--app={self.assembly}", place)

    def deploy(self) -> Mapping[str, str]:
        """Deploy what was synthesized; outputs of all stacks."""
        outputs = self.home / "outputs.json"
        self._run(
            "deploy",
            "--all",
            f"--app={self.assembly}",
            "--require-approval=never",
            f"--outputs-file={outputs}",
        )
        found: Mapping[str, Mapping[str, str]] = json.loads(outputs.read_text())
        return {key: value for stack in found.values() for key, value in stack.items()}

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [str(CDK), *arguments],
            cwd=ROOT,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"cdk {arguments[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )


@contextmanager
def deployed(
    stand: Stand, assembly: Path, folder: Path, *, name: str = "crossdock"
) -> Iterator[Deployed]:
    """Bootstrap and deploy with the command line; torn down in the end."""
    cdk = CommandLine.installed(stand, folder, assembly)
    cdk.bootstrap()
    outputs = cdk.deploy()
    _tag_buckets(stand.session(), name)
    deployment = Deployed(stand=stand, name=name, outputs=outputs)
    try:
        yield deployment
    finally:
        deployment.teardown().run()


@contextmanager
def quickly_deployed(
    stand: Stand, assembly: Path, folder: Path, *, name: str = "crossdock"
) -> Iterator[Deployed]:
    """Deploy a synthesized app as the command line would, without its start-up times."""
    session = stand.session()
    _pretend_bootstrap(session)
    outputs: dict[str, str] = {}
    for stack in STACKS:
        _upload_assets(session, assembly, f"{name}-{stack}", folder)
        outputs |= _create(session, assembly, f"{name}-{stack}")
    _tag_buckets(session, name)
    deployment = Deployed(stand=stand, name=name, outputs=outputs)
    try:
        yield deployment
    finally:
        deployment.teardown().run()


_BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"


def _pretend_bootstrap(session: Any) -> None:
    session.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
    )
    session.client("s3").create_bucket(Bucket=_BUCKET)


def _upload_assets(session: Any, assembly: Path, stack: str, folder: Path) -> None:
    assets = json.loads((assembly / f"{stack}.assets.json").read_text())["files"]
    s3 = session.client("s3")
    for asset in assets.values():
        source = assembly / asset["source"]["path"]
        (destination,) = asset["destinations"].values()
        if asset["source"]["packaging"] == "zip":
            source = _zipped(source, folder / f"{source.name}.zip")
        s3.upload_file(str(source), _BUCKET, destination["objectKey"])


def _zipped(source: Path, target: Path) -> Path:
    if not target.exists():
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(source.rglob("*")):
                archive.write(path, path.relative_to(source))
    return target


def _create(session: Any, assembly: Path, stack: str) -> dict[str, str]:
    client = session.client("cloudformation")
    template = (assembly / f"{stack}.template.json").read_text()
    key = f"templates/{stack}.json"
    session.client("s3").put_object(Bucket=_BUCKET, Key=key, Body=template.encode())
    client.create_stack(
        StackName=stack,
        TemplateURL=f"{client.meta.endpoint_url}/{_BUCKET}/{key}",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        Tags=[{"Key": "crossdock:deployment", "Value": stack.partition("-")[0]}],
    )
    client.get_waiter("stack_create_complete").wait(
        StackName=stack, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    (found,) = client.describe_stacks(StackName=stack)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}


def _tag_buckets(session: Any, name: str) -> None:
    """Do what the emulator forgets: a bucket's tags in a template."""
    stack = session.client("cloudformation").describe_stack_resources(StackName=f"{name}-state")
    for resource in stack["StackResources"]:
        if resource["ResourceType"] == "AWS::S3::Bucket":
            session.client("s3").put_bucket_tagging(
                Bucket=resource["PhysicalResourceId"],
                Tagging={"TagSet": [{"Key": "crossdock:deployment", "Value": name}]},
            )
