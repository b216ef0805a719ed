"""Servers that the tests of cloud stores start for themselves, on free ports of the loopback."""

from __future__ import annotations

import itertools
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import get_canned_acl, s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from tessel.store.objects import CloudOptions, ObjectStore, S3Credentials, open_objects

CREDENTIALS = S3Credentials("test-key", "test-secret")

_numbers = itertools.count()


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
        pass


class _OneWriteAtATime:
    """Moto looks whether an object exists, and then writes it: here the two are one step."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT":
            return self._application(environ, start_response)
        with self._lock:
            return list(self._application(environ, start_response))


class MotoServer:
    """Moto's HTTP server for S3, in threads of this process."""

    def __init__(self) -> None:
        application = _OneWriteAtATime(DomainDispatcherApplication(create_backend_app))
        self._server = make_server(
            "127.0.0.1", 0, application, threaded=True, request_handler=_Quiet
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def new_bucket(self) -> str:
        """Make an empty bucket, and return its name."""
        bucket = f"bucket-{next(_numbers)}"
        request = urllib.request.Request(f"{self.url}/{bucket}", method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
        return bucket

    def publish(self, bucket: str) -> None:
        """Let anybody read what a bucket holds now."""
        found = _bucket(bucket)
        for each in (found, *found.keys.values()):
            each.set_acl(get_canned_acl("public-read"))

    def age(self, bucket: str, by: timedelta, prefix: str = "") -> None:
        """Make the objects of a bucket older; the prefix is that of their keys."""
        for key in _bucket(bucket).keys.values():
            if key.name.startswith(prefix):
                key.last_modified -= by

    @property
    def options(self) -> CloudOptions:
        return CloudOptions(endpoint=self.url, region="us-east-1", allow_http=True)

    def open(self, uri: str) -> ObjectStore:
        return open_objects(uri, credentials=CREDENTIALS, options=self.options)


def _bucket(name: str) -> Any:
    (found,) = [
        backend.buckets[name]
        for account in s3_backends.values()
        for backend in account.values()
        if name in backend.buckets
    ]
    return found


@contextmanager
def moto_server() -> Iterator[MotoServer]:
    server = MotoServer()
    try:
        yield server
    finally:
        server.close()
