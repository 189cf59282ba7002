"""What goes into the layers, for which machines, and what is left out."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "layers" / "locks"
#: The runtime of the functions.
PYTHON = "3.13"
#: What Lambda accepts of a function and its layers, unpacked, in bytes.
UNPACKED_LIMIT = 250 * 1024 * 1024
#: Our packages, which make the layer ``engine``.
ENGINE = "engine"
ENGINE_PACKAGES = ("coordinator_state", "crossdock")
#: Layers of locked third-party packages; ``<name>.in`` says what is wanted.
THIRD_PARTY = ("base", "duckdb", "arrow")

_LIGHT = (ENGINE, "base")
_RUNS = (*_LIGHT, "duckdb")
#: Handlers and the layers their functions get; a test compares them with the synthesized template.
HANDLERS: Mapping[str, Sequence[str]] = {
    "api": _LIGHT,
    "coordinator": (*_RUNS, "arrow"),
    "producer": _RUNS,
    "consumer": _RUNS,
    "janitor": _RUNS,
}

#: Processor seconds that importing a handler may take: twice to three times what it took when this
#: was written, on the machine of a laptop's kind. A test keeps to it.
CEILINGS: Mapping[str, float] = {
    "api": 1.0,
    "coordinator": 2.0,
    "producer": 1.5,
    "consumer": 1.5,
    "janitor": 1.0,
}

#: The runtime has these; a copy would cost 25 MB and start no faster.
PROVIDED = frozenset({"boto3", "botocore", "python-dateutil", "s3transfer", "six", "urllib3"})

#: Left out of every layer: what no function imports.
LEFT_OUT = (
    "**/__pycache__",
    "**/*.pyi",
    "**/py.typed",
    "**/tests",
    "bin",
    "adbc_driver_duckdb",
    "duckdb/experimental",  # an interface of another engine
    "aws_xray_sdk/ext/django",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui",  # only for a page of documentation
    "*.dist-info/RECORD",
    # Arrow: what reads Parquet stays. Its own S3 client and RPC are not used.
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/*.pxi",
    "pyarrow/*.pyx",
    "pyarrow/*.pxd",
    "pyarrow/includes",
    "pyarrow/*flight*",
    "pyarrow/_substrait*",
    "pyarrow/*_s3*",
    "pyarrow/*_orc*",
    "pyarrow/*encryption*",
    "pyarrow/*_gcsfs*",
    "pyarrow/*_azurefs*",
    "pyarrow/*_hdfs*",
    "pyarrow/*_cuda*",
    "pyarrow/*_feather*",
    "pyarrow/*_pyarrow_cpp_tests*",
    # A library is found by its SONAME; its other names are copies, as archives know no links.
    "pyarrow/*.so.[0-9]*.[0-9]*.[0-9]*",
    "pyarrow/libarrow*.so",
)


class Machine(StrEnum):
    """Architectures as Lambda names them."""

    ARM64 = "arm64"
    X86_64 = "x86_64"

    @classmethod
    def of_this(cls) -> Machine:
        """The machine this runs on."""
        return cls.ARM64 if platform.machine() in {"arm64", "aarch64"} else cls.X86_64

    @property
    def wheel(self) -> str:
        """As wheels name it."""
        return "aarch64" if self is Machine.ARM64 else "x86_64"

    @property
    def elf(self) -> int:
        """``e_machine`` of its shared objects."""
        return 0xB7 if self is Machine.ARM64 else 0x3E


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A machine and a Python that layers are built for."""

    machine: Machine
    python: str = PYTHON

    @property
    def pip_options(self) -> Sequence[str]:
        """How pip is told to fetch wheels of another machine."""
        # The runtime is Amazon Linux 2023, with glibc 2.34.
        tags = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
        platforms = [f"--platform={tag}_{self.machine.wheel}" for tag in tags]
        version = [f"--python-version={self.python}", "--implementation=cp"]
        return ["--only-binary=:all:", *platforms, *version]

    def lock(self, layer: str) -> Path:
        return LOCKS / f"{layer}-{self.machine}.txt"
