"""Every limit of the HTTP API, in one place. The description (``openapi``) states them too."""

from __future__ import annotations

MIB = 1024 * 1024

#: Bytes of a request body; the gateway itself takes 10 MB.
MAX_BODY_BYTES = MIB
#: Characters of a statement.
MAX_SQL_CHARS = 256 * 1024
#: Parameters of a statement.
MAX_PARAMETERS = 1_000
MAX_TOKEN_CHARS = 128
MAX_NAME_CHARS = 255
#: Files, globs and folders of one table entry.
MAX_SOURCES = 1_000

#: Rows of a JSON page.
DEFAULT_PAGE_ROWS = 1_000
MAX_PAGE_ROWS = 10_000
#: Bytes of a page's rows as JSON. A function answers at most 6 MB, in which the page is a JSON
#: string: its quotes are escaped, which doubles it at worst.
MAX_PAGE_BYTES = 5 * MIB // 2
#: Rows that JSON pages reach; beyond, a result is read as files.
MAX_JSON_ROWS = 10_000_000

#: Result files told in one answer; those in another form than the engine's are made meanwhile.
DEFAULT_PARTS = 10
MAX_PARTS = 100
#: Seconds a presigned URL is good for.
URL_SECONDS = 900

DEFAULT_LISTED = 50
MAX_LISTED = 200

#: Seconds of ``wait``; the gateway cuts a call at 30.
MAX_WAIT_SECONDS = 20.0
#: Seconds of ``timeout_seconds``.
MAX_TIMEOUT_SECONDS = 86_400.0

#: Seconds after which a refused submission may succeed.
RETRY_AFTER_SECONDS = 5.0
