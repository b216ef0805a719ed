"""Objects in a bucket: Amazon S3, Google Cloud Storage, Azure Blob Storage, through obstore.

:func:`tessel.store.objects.open_objects` enters here. A put is one conditional request. Requests
are repeated here and not by the library, because only whoever counts them can tell an object that
was there before from one that an earlier request of the same put brought, whose answer was lost.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import pyarrow as pa

from tessel.errors import (
    ConditionalWriteError,
    ForkUnsafeError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    OptionError,
    StoreError,
    TesselError,
)
from tessel.store.objects.base import ObjectFacts, check_name, object_absent, short_object
from tessel.store.objects.cloud_errors import CloudFailure, Failure, failed
from tessel.store.objects.cloud_place import CLOUDS, CloudOptions, CloudPlace
from tessel.store.objects.credentials import CredentialsSource, Provider
from tessel.telemetry import emit

_LARGEST_PUT: Final = 5 << 30
"""Bytes that every provider takes in one request."""

_LISTED: Final = 1000
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0

Answer = TypeVar("Answer")

_used = False
_forked = False
_verified: set[tuple[str, str | None, str | None]] = set()
"""Places where put-if-absent was seen to hold."""


def _after_fork() -> None:
    global _forked
    _forked = _forked or _used


os.register_at_fork(after_in_child=_after_fork)


class CloudObjects:
    """A folder in a bucket; satisfies :class:`~tessel.store.objects.base.ObjectStore`.

    Parameters
    ----------
    place
        Where.
    credentials
        Typed credentials, or a function that returns them; None for what the environment offers:
        the provider's variables, or the identity of the machine.
    options
        How it is reached.

    Raises
    ------
    MissingDependencyError
        Without the extra ``cloud``.
    ForkUnsafeError
        In a forked process whose parent had used a cloud store. So does every method.
    InvalidInputError
        For credentials of another provider.
    OptionError
        For an option that the provider does not have, or one that it needs.
    """

    def __init__(
        self,
        place: CloudPlace,
        *,
        credentials: CredentialsSource | None = None,
        options: CloudOptions | None = None,
    ) -> None:
        _check_process()
        options = options or CloudOptions()
        if credentials is not None and options.anonymous:
            raise OptionError("credentials= and the option 'anonymous' exclude each other")
        self._place = place
        self._options = options
        self._provider = None if credentials is None else Provider(place.scheme, credentials)
        # Reads may be repeated by the library as often as it likes; see the module for writes.
        self._reader = self._connect(retries=options.attempts - 1)
        self._writer = self._connect(retries=0)

    def __repr__(self) -> str:
        return f"<CloudObjects {self.uri!r}>"

    @property
    def uri(self) -> str:
        """``scheme://bucket/folder``; it holds no secret."""
        return self._place.uri

    @property
    def options(self) -> CloudOptions:
        """How it is reached; everything in them may be shown."""
        return self._options

    @property
    def has_credentials(self) -> bool:
        """Whether it was given credentials, rather than taking what the environment offers."""
        return self._provider is not None

    @property
    def puts_in_flight(self) -> int:
        """How many objects are worth uploading at a time."""
        return self._options.in_flight

    def _connect(self, *, retries: int) -> Any:
        global _used
        try:
            from obstore import store
        except ImportError as error:
            what = f"a store in {CLOUDS[self._place.scheme]}"
            raise MissingDependencyError.for_extra("obstore", "cloud", what) from error
        options = self._options
        cls = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}
        _used = True
        problem = None
        try:
            return cls[self._place.scheme](
                self._place.bucket,
                prefix=self._place.prefix or None,
                config=_config(self._place.scheme, options),
                client_options={
                    "allow_http": options.allow_http,
                    "connect_timeout": timedelta(seconds=options.connect_timeout_seconds),
                    "timeout": timedelta(seconds=options.request_timeout_seconds),
                },
                retry_config={
                    "max_retries": retries,
                    "retry_timeout": timedelta(seconds=4 * options.request_timeout_seconds),
                },
                credential_provider=self._provider,
            )
        except TesselError:
            raise
        except Exception as error:
            # Its text may quote variables of the environment.
            problem = type(error).__name__
        raise OptionError(
            f"{self.uri!r} cannot be reached with these options and this environment ({problem})",
            hint="check the options given and the provider's variables in the environment",
            uri=self.uri,
        )

    # --- writing ----------------------------------------------------------------------------------

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object unless one of that name exists, in one conditional request.

        Where an answer was lost, the object is read back: one with these very bytes counts as
        written by this call.

        Raises
        ------
        StoreError
            In one of its kinds. With the attribute ``landed="unknown"`` the object may exist, or
            may yet come to.
        StoreNotFoundError
            When there is no such bucket.
        InvalidInputError
            For more bytes than go into one request.
        """
        check_name(name)
        view = memoryview(data).cast("B")
        if len(view) > _LARGEST_PUT:
            raise InvalidInputError(
                f"object {name!r} has {len(view)} bytes; {CLOUDS[self._place.scheme]} takes "
                f"{_LARGEST_PUT} in one request",
                hint="write smaller segments: with tessel.options(segment_rows=...)",
                object=name,
            )
        uncertain = False
        for failure in self._puts(name, view):
            if failure is None:
                return True
            if failure.kind is Failure.EXISTS and failure.definite and not uncertain:
                return False
            if failure.kind not in (Failure.EXISTS, Failure.BUSY, Failure.UNKNOWN):
                break
            uncertain = uncertain or failure.kind is Failure.UNKNOWN
            if failure.kind is not Failure.BUSY:
                standing = self._standing(name, view, uncertain, failure)
                if standing is not None:
                    return standing
        assert failure is not None
        if failure.kind is Failure.ABSENT:
            failure = CloudFailure(Failure.NO_BUCKET, failure.status, failure.code)
        raise self._failed("write", name, failure, landed="unknown" if uncertain else "no")

    def _standing(
        self, name: str, view: memoryview, uncertain: bool, failure: CloudFailure
    ) -> bool | None:
        """Return whether the object is ours, or None where there is none."""
        problem: TesselError
        try:
            if uncertain:
                return memoryview(self.get(name)).cast("B") == view
            return False if self.exists(name) else None
        except NotFoundError:
            return None
        except TesselError as error:
            problem = error
        raise self._failed(
            "write",
            name,
            failure,
            why=f"{failure.told}, and it could not be read back: {problem.message}",
            landed="unknown" if uncertain else "no",
        )

    def verify_put_if_absent(self, name: str) -> None:
        """Put the bytes of an object again, once a process, and expect that to be refused.

        Nothing changes by it, whatever the server does.

        Raises
        ------
        ConditionalWriteError
            When it was not refused.
        StoreError
            When the server did not say.
        """
        place = (self.uri, self._options.endpoint, self._options.account)
        if place in _verified:
            return
        view = memoryview(self.get(name)).cast("B")
        for failure in self._puts(name, view):
            if failure is None:
                raise ConditionalWriteError.ignored(self.uri, name)
            if failure.kind is Failure.REFUSED or (
                failure.kind is Failure.EXISTS and failure.definite
            ):
                _verified.add(place)
                return
        assert failure is not None
        raise self._failed("write", name, failure, landed="no")

    def _puts(self, name: str, view: memoryview) -> Iterator[CloudFailure | None]:
        """Give how each conditional put of an object failed; None ends it, for one that did not.

        Attempts follow one another after pauses; there is one at least.
        """
        for attempt in range(1, self._options.attempts + 1):
            found = self._request(
                lambda: self._writer.put(name, view, mode="create", use_multipart=False)
            )
            yield found if isinstance(found, CloudFailure) else None
            if attempt < self._options.attempts and isinstance(found, CloudFailure):
                emit("objects.retry", object=name, attempt=attempt, status=found.status)
                pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
                time.sleep(random.uniform(pause / 4, pause))

    def delete(self, name: str) -> None:
        """Remove an object; providers that refuse to remove what is absent are taken at that."""
        check_name(name)
        found = self._request(lambda: self._reader.delete(name))
        if isinstance(found, CloudFailure) and found.kind is not Failure.ABSENT:
            raise self._failed("remove", name, found)

    # --- reading ----------------------------------------------------------------------------------

    def get(self, name: str) -> pa.Buffer:
        """Return the bytes of an object, all or an error."""
        check_name(name)

        def read() -> tuple[int, pa.Buffer]:
            answer = self._reader.get(name)
            return int(answer.meta["size"]), pa.py_buffer(answer.bytes())

        size, found = self._answer("read", name, read)
        if found.size != size:
            raise short_object(name, 0, size, found.size)
        return found

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of an object; never less than was asked for."""
        self._check_name(name)
        found: pa.Buffer | CloudFailure | None = None
        if offset >= 0 and length > 0:
            found = self._request(
                lambda: pa.py_buffer(self._reader.get_range(name, start=offset, length=length))
            )
            if not isinstance(found, CloudFailure) and found.size == length:
                return found
            if isinstance(found, CloudFailure) and not _may_be_short(found):
                raise self._read_failure("read", name, found)
        # Nothing was read, or not all: whether the object is to blame, its length tells.
        size = self.size(name)
        if offset < 0 or length < 0 or offset + length > size:
            raise short_object(name, offset, length, size)
        if length == 0:
            return pa.py_buffer(b"")
        if isinstance(found, CloudFailure):
            raise self._read_failure("read", name, found)
        raise StoreError(
            f"the server gave too few bytes of {name!r} in {self.uri!r}: {length} from {offset} "
            f"were asked for, the object has {size}",
            hint="try again; if it stays so, a proxy on the way is at fault",
            object=name,
            uri=self.uri,
        )

    def _check_name(self, name: str) -> str:
        """Refuse what names no object; a reader of others' objects takes more names."""
        return check_name(name)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        """Yield the names that start with ``prefix``, sorted, as the provider's pages come."""
        return (facts.name for facts in self._listed(prefix, after, limit))

    def inventory(self, prefix: str = "") -> Iterator[ObjectFacts]:
        """Yield names, sizes and times of writing, which come with a listing."""
        return self._listed(prefix, None, None)

    def modified_us(self, name: str) -> int:
        """Return when an object was written, by the provider's clock."""
        check_name(name)
        found = self._answer("look at", name, lambda: self._reader.head(name))
        return _microseconds(found["last_modified"])

    def _listed(self, prefix: str, after: str | None, limit: int | None) -> Iterator[ObjectFacts]:
        left = limit
        if left == 0:
            return
        folder = prefix.removesuffix("/") or None
        stream = self._answer(
            "list",
            prefix,
            lambda: self._reader.list(
                folder, offset=after, chunk_size=_LISTED if left is None else min(left, _LISTED)
            ),
        )
        last = ""
        while chunk := self._answer("list", prefix, lambda: next(stream, None)):
            for item in chunk:
                name = str(item["path"])
                if name <= last:
                    raise StoreError(
                        f"the server of {self.uri!r} lists names without an order",
                        hint="keep the store on a server that lists names in byte order, as S3 "
                        "does",
                        uri=self.uri,
                    )
                last = name
                if after is not None and name <= after:
                    continue  # Azure has no such start, and the library does not leave them out
                yield ObjectFacts(name, int(item["size"]), _microseconds(item["last_modified"]))
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

    def size(self, name: str) -> int:
        """Return the length of an object in bytes."""
        self._check_name(name)
        return int(self._answer("look at", name, lambda: self._reader.head(name))["size"])

    def exists(self, name: str) -> bool:
        """Return whether there is an object of that name."""
        try:
            self.size(name)
        except NotFoundError:
            return False
        return True

    # --- requests ---------------------------------------------------------------------------------

    def _answer(self, what: str, name: str, request: Callable[[], Answer]) -> Answer:
        found = self._request(request)
        if isinstance(found, CloudFailure):
            raise self._read_failure(what, name, found)
        return found

    def _request(self, request: Callable[[], Answer]) -> Answer | CloudFailure:
        """Return what a request gives, or how it failed; obstore's error goes no further."""
        _check_process()
        try:
            return request()
        except Exception as error:
            return CloudFailure.of(error)

    def _read_failure(self, what: str, name: str, failure: CloudFailure) -> TesselError:
        if failure.kind is Failure.ABSENT:
            return object_absent(name, self.uri)
        return self._failed(what, name, failure)

    def _failed(
        self, what: str, name: str, failure: CloudFailure, why: str | None = None, **more: Any
    ) -> TesselError:
        if failure.kind is Failure.REFUSED and self._provider is not None and why is None:
            why = self._provider.failure
        return failed(what, name, self.uri, failure, why, **more)


_NO_SUCH_RANGE: Final = 416


def _may_be_short(failure: CloudFailure) -> bool:
    """Whether a range may have failed since the object ends before it.

    Azure answers with what there is, which the library takes for a broken answer.
    """
    return failure.status == _NO_SUCH_RANGE or (
        failure.kind is Failure.UNKNOWN and failure.status is None
    )


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _check_process() -> None:
    if _forked:
        raise ForkUnsafeError(
            "a cloud store was used in this process's parent before it forked, and would hang here",
            hint='start processes with multiprocessing.get_context("spawn"), or open the store '
            "after the fork only",
        )


def _config(scheme: str, options: CloudOptions) -> dict[str, Any]:
    """Return the options in the words of obstore."""
    if scheme != "s3":
        for name in ("region", "virtual_hosted_style"):
            if getattr(options, name):
                raise OptionError(f"option {name!r} is for s3:// only", option=name)
    if scheme != "az" and options.account:
        raise OptionError("option 'account' is for az:// only", option="account")
    if scheme == "s3":
        config: dict[str, Any] = {
            "endpoint": options.endpoint,
            "region": options.region,
            "virtual_hosted_style_request": options.virtual_hosted_style or None,
            "conditional_put": "etag",
            # Not every server that speaks S3 knows the request that deletes many.
            "disable_bulk_delete": True,
        }
    elif scheme == "gs":
        config = {"base_url": options.endpoint}
    else:
        if not options.account and not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
            raise OptionError(
                "an az:// store needs the option 'account', the name of the storage account",
                hint='tessel.open("az://container/folder", options=CloudOptions(account="name"))',
                option="account",
            )
        config = {"account_name": options.account, "endpoint": options.endpoint}
    config["skip_signature"] = options.anonymous or None
    return {name: value for name, value in config.items() if value is not None}
