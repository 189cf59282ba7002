"""The API's handler keeps to its description, whatever it is sent."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crossdock.catalog import Catalog
from tests.api_local import local_api
from tests.api_server import Server, served
from tests.conformance import conformance
from tests.remote_folder import FolderFiles


class HastyClock:
    """Sleeping takes no time, and is over all the same: requests may ask to wait 20 s."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return time.time() + self._ahead

    def sleep(self, seconds: float) -> None:
        self._ahead += seconds


# With metrics disabled Powertools gathers them over requests, and finds none left at times.
@pytest.mark.filterwarnings("ignore:No application metrics:UserWarning")
def test_no_request_is_answered_with_an_error_of_ours_or_against_the_description(
    tmp_path: Path,
) -> None:
    (tmp_path / "s3").mkdir()
    # No local paths, as in a deployment: any text may be sent as a table's source.
    catalog = Catalog(tmp_path / "home", remote=FolderFiles(tmp_path / "s3"), local=False)
    server = Server(tmp_path / "home" / "objects")
    with (
        local_api(tmp_path / "home", {}, clock=HastyClock(), catalog=catalog) as api,
        served(api.api, tmp_path / "home" / "objects", server),
    ):
        ended = api.run("SELECT 42 AS answer, 'x' AS text")
        api.control.paused = True  # what is submitted from here on only has to be answered
        found = conformance(server.url, tmp_path, query_id=ended["query_id"], examples=8)
        assert not found, found
        assert len(server.requests) > 300
    server.close()
