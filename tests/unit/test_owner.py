"""Whether the process that drives a query still lives, and whose a scratch folder is."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from crossdock.owner import client_folder, is_dead, is_of_living_client, this_process


def owner_of(pid: int) -> str:
    host = this_process().rsplit(":", 2)[0]
    return f"{host}:{pid}:{psutil.Process(pid).create_time():.2f}"


def test_this_process_lives_and_so_does_its_folder() -> None:
    assert not is_dead(this_process())
    assert is_of_living_client(client_folder())
    assert client_folder() != client_folder()


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    owner = owner_of(child.pid)
    assert not is_dead(owner)
    child.kill()
    deadline = time.monotonic() + 30
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
    assert is_dead(owner)
    child.communicate()
    assert is_dead(owner)
    assert not is_of_living_client(f"client-{owner}-0123abcd")


def test_a_number_given_to_another_process_is_dead() -> None:
    host = this_process().rsplit(":", 2)[0]
    assert is_dead(f"{host}:{os.getpid()}:1.00")


@pytest.mark.parametrize("owner", ["", "elsewhere:1:1.00", "no numbers", "a:b:c"])
def test_what_cannot_be_told_counts_as_living(owner: str) -> None:
    assert not is_dead(owner)
    assert is_of_living_client(f"client-{owner}-0123abcd")


def test_folder_of_a_query_is_no_clients() -> None:
    assert not is_of_living_client("01k8mtfl0r85m5acsrkg")
