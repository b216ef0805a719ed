"""A small server that speaks enough of S3 to be a store, and fails as it is told to."""

from __future__ import annotations

import enum
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tessel.store.objects import CloudOptions, ObjectStore, open_objects
from tests.store.objects.servers import CREDENTIALS

_LONG_ENOUGH_SECONDS = 60
FOLDER = "store/"


class Fault(enum.Enum):
    """What a server can do to a request. Of those that answer nothing, some have done it."""

    REPLY_LOST = "does it, and closes the connection"
    DROPPED = "closes the connection"
    ERROR_500_AFTER = "does it, and answers 500"
    ERROR_500 = "answers 500"
    HANG_AFTER = "does it, and never answers"
    HANG = "never answers"
    LATE = "never answers, and does it when the next put of the same name has come"
    CONFLICT_409 = "answers 409: another request is under way"
    THROTTLED_429 = "answers 429"
    SLOW_DOWN_503 = "answers 503 SlowDown"
    FORBIDDEN_403 = "answers 403"
    WRONG_LENGTH = "does it, and announces more bytes than it sends"
    SHORT_BODY = "does it, and sends fewer bytes than there are, and says so"
    EXTRA_BYTES = "does it, and sends more bytes than were asked for"


_ERRORS = {
    Fault.ERROR_500: (500, "InternalError"),
    Fault.ERROR_500_AFTER: (500, "InternalError"),
    Fault.CONFLICT_409: (409, "ConditionalRequestConflict"),
    Fault.THROTTLED_429: (429, "TooManyRequests"),
    Fault.SLOW_DOWN_503: (503, "SlowDown"),
    Fault.FORBIDDEN_403: (403, "AccessDenied"),
}
_DONE = {
    Fault.REPLY_LOST,
    Fault.ERROR_500_AFTER,
    Fault.HANG_AFTER,
    Fault.WRONG_LENGTH,
    Fault.SHORT_BODY,
    Fault.EXTRA_BYTES,
}
_NO_ANSWER = {Fault.REPLY_LOST, Fault.DROPPED, Fault.HANG, Fault.HANG_AFTER, Fault.LATE}


@dataclass
class Rule:
    """Which requests fail: those of a method whose key fits, from one of them on, so many."""

    method: str
    fault: Fault
    key: str = ""
    first: int = 0
    times: int = 1
    seen: int = 0

    def applies(self, method: str, key: str) -> bool:
        if method != self.method or re.search(self.key, key) is None:
            return False
        self.seen += 1
        return self.first < self.seen <= self.first + self.times


@dataclass
class ScriptedServer:
    """The objects of one server, what was asked of it, and what it does wrong."""

    objects: dict[str, bytes] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    late: dict[str, bytes] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    ignores_start: bool = False
    ignores_conditions: bool = False

    def fault(self, method: str, key: str) -> Fault | None:
        with self.lock:
            self.log.append((method, key))
            for rule in self.rules:
                if rule.applies(method, key):
                    return rule.fault
        return None

    def put(self, key: str, data: bytes, *, conditional: bool) -> bool:
        with self.lock:
            if conditional and key in self.objects and not self.ignores_conditions:
                return False
            self.objects[key] = data
            return True

    def count(self, method: str, pattern: str = "") -> int:
        return sum(1 for made, key in self.log if made == method and re.search(pattern, key))

    def open(
        self, uri: str = "s3://bucket/store", *, seconds: float = 30.0, attempts: int = 3
    ) -> ObjectStore:
        return open_objects(uri, credentials=CREDENTIALS, options=self.options(seconds, attempts))

    def options(self, seconds: float = 30.0, attempts: int = 3) -> CloudOptions:
        return CloudOptions(
            endpoint=self.url,
            region="us-east-1",
            allow_http=True,
            request_timeout_seconds=seconds,
            attempts=attempts,
        )


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = self._key()
            fault = server.fault("PUT", key)
            late = server.late.pop(key, None)
            if late is not None:
                server.put(key, late, conditional=True)
            if fault is Fault.LATE:
                server.late[key] = data
            made = True
            if fault is None or fault in _DONE:
                made = server.put(key, data, conditional=self.headers.get("if-none-match") == "*")
            if self._failed(fault):
                return
            if not made:
                self._error(412, "PreconditionFailed")
                return
            self._send(200, b"", fault, ETag=_etag(data))

        def do_GET(self) -> None:
            key = self._key()
            query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
            if "list-type" in query:
                fault = server.fault("LIST", query.get("prefix", [""])[0])
                if not self._failed(fault):
                    self._list(query, fault)
                return
            fault = server.fault("GET", key)
            data = server.objects.get(key)
            if self._failed(fault):
                return
            if data is None:
                self._error(404, "NoSuchKey")
                return
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range") or "")
            if wanted is None:
                self._send(200, data, fault, ETag=_etag(data))
                return
            start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
            if start >= len(data):
                self._error(416, "InvalidRange")
                return
            announced = f"bytes {start}-{end - 1}/{len(data)}"
            if fault is Fault.EXTRA_BYTES:
                end = len(data)
            self._send(206, data[start:end], fault, ETag=_etag(data), Content_Range=announced)

        def do_HEAD(self) -> None:
            key = self._key()
            fault = server.fault("HEAD", key)
            data = server.objects.get(key)
            if self._failed(fault):
                return
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.send_header("ETag", _etag(data or b""))
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()

        def do_DELETE(self) -> None:
            key = self._key()
            fault = server.fault("DELETE", key)
            if not self._failed(fault):
                server.objects.pop(key, None)
                self._send(204, b"", None)

        def _list(self, query: dict[str, list[str]], fault: Fault | None) -> None:
            prefix, after = (
                query.get(name, [""])[0].removeprefix(FOLDER) for name in ("prefix", "start-after")
            )
            after = "" if server.ignores_start else after
            found = sorted(k for k in list(server.objects) if k.startswith(prefix) and k > after)
            entries = "".join(
                f"<Contents><Key>{FOLDER}{escape(k)}</Key><Size>{len(server.objects[k])}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{_etag(server.objects[k])}</ETag></Contents>"
                for k in found
            )
            text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
            self._send(200, text.encode(), fault)

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).removeprefix("/bucket/").removeprefix(FOLDER)

        def _failed(self, fault: Fault | None) -> bool:
            """Whether a fault has taken the answer's place."""
            if fault in _ERRORS:
                self._error(*_ERRORS[fault])
                return True
            if fault in _NO_ANSWER:
                if fault in (Fault.HANG, Fault.HANG_AFTER, Fault.LATE):
                    server.released.wait(_LONG_ENOUGH_SECONDS)
                self.close_connection = True
                return True
            return False

        def _error(self, status: int, code: str) -> None:
            text = f"<Error><Code>{code}</Code><Message>as told</Message></Error>"
            self._send(status, text.encode() if self.command != "HEAD" else b"", None)

        def _send(self, status: int, data: bytes, fault: Fault | None, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            if fault is Fault.SHORT_BODY:
                data = data[: len(data) // 2]
            self.send_header(
                "Content-Length", str(len(data) + (7 if fault is Fault.WRONG_LENGTH else 0))
            )
            self.end_headers()
            self.wfile.write(data)
            if fault is Fault.WRONG_LENGTH:
                self.close_connection = True

    return Handler


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    http.block_on_close = False
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients hang up: as told
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        thread.join()
        http.server_close()
