"""Where a cloud store is and how it is reached: the parts of a URI, checked, and the options.

:mod:`tessel.store.objects.open` and :mod:`tessel.store.objects.cloud` enter here. A URI is shown
in errors and logs, so one that could hold a secret is refused, and that error does not show it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final
from urllib.parse import urlsplit

from tessel.errors import InvalidInputError, NameNotFoundError, OptionError
from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass

CLOUDS: Final = {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
"""What each scheme stands for."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_PART: Final = re.compile(r"(?!\.{1,2}$)[\w.=-]+", re.ASCII)
_PREFIX_CHARACTERS: Final = 600
_DIRECTORY_BUCKET: Final = "--x-s3"


@checks_arguments
@dataclass(frozen=True, slots=True)
class CloudOptions:
    """How a cloud store is reached; everything here may be shown.

    Attributes
    ----------
    endpoint
        ``https://host:port`` of a server other than the provider's own.
    region
        Region of an S3 bucket.
    account
        Storage account of an Azure container.
    allow_http
        Whether the endpoint may be ``http://``, where secrets and data travel in the open.
    virtual_hosted_style
        Whether the bucket is part of the host name (S3); then the endpoint has it in it too.
    anonymous
        Send no credentials: for public data.
    connect_timeout_seconds, request_timeout_seconds
        For a connection to be made; for a whole request with its body. Raise the second for slow
        lines: an object of 64 MiB goes out in one request.
    attempts
        How often a request is sent before its failure is raised.
    in_flight
        Objects of one commit that are uploaded at a time.

    Raises
    ------
    OptionError
        For a value of another type or outside its range.
    """

    endpoint: str | None = None
    region: str | None = None
    account: str | None = None
    allow_http: bool = False
    virtual_hosted_style: bool = False
    anonymous: bool = False
    connect_timeout_seconds: float = 5.0
    request_timeout_seconds: float = 120.0
    attempts: int = 5
    in_flight: int = 64

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._check_type(field.name, str(field.type), getattr(self, field.name))
        for name in ("connect_timeout_seconds", "request_timeout_seconds"):
            if not 0 < getattr(self, name) <= 86_400:
                raise OptionError(f"option {name!r} is above 0 and at most a day", option=name)
        for name, most in (("attempts", 100), ("in_flight", 1024)):
            if not 1 <= getattr(self, name) <= most:
                raise OptionError(f"option {name!r} is from 1 to {most}", option=name)
        if self.endpoint is not None:
            self._check_endpoint(self.endpoint)

    @classmethod
    def of(cls, values: CloudOptions | dict[str, Any] | None) -> CloudOptions:
        """Return the options that were given, or those of a mapping of their names.

        Raises
        ------
        NameNotFoundError
            For an unknown name, with the nearest.
        OptionError
            For a value that cannot be.
        """
        if values is None or isinstance(values, CloudOptions):
            return values or cls()
        if not isinstance(values, dict):
            raise OptionError(f"the options of a store are CloudOptions, not {values!r:.80}")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise NameNotFoundError.for_name("cloud option", str(name), names)
        return cls(**values)

    @staticmethod
    def _check_type(name: str, kind: str, value: object) -> None:
        if kind == "bool":
            right = isinstance(value, bool)
        elif kind in ("int", "float"):
            numbers = (int,) if kind == "int" else (int, float)
            right = isinstance(value, numbers) and not isinstance(value, bool)
        else:
            right = value is None or (
                isinstance(value, str) and value.isprintable() and value != ""
            )
        if not right:
            raise OptionError(
                f"option {name!r} takes {kind}, not {type(value).__name__}", option=name
            )

    def _check_endpoint(self, endpoint: str) -> None:
        problem = None
        try:
            parts = urlsplit(endpoint)
            plain = parts.scheme == "http"
            if parts.scheme not in ("http", "https") or not parts.hostname:
                problem = "is no http:// or https:// address"
            elif parts.username is not None or parts.query or parts.fragment:
                problem = "holds more than an address; secrets go into credentials="
            elif plain and not self.allow_http:
                problem = "is http://, which sends secrets and data in the open: allow_http=True"
        except ValueError:
            problem = "is no address"
        if problem is not None:
            raise OptionError(f"option 'endpoint' {problem}", option="endpoint")


@dataclass(frozen=True, slots=True)
class CloudPlace:
    """A folder in a bucket.

    Attributes
    ----------
    scheme
        ``"s3"``, ``"gs"`` or ``"az"``.
    bucket
        The bucket; for Azure, the container.
    prefix
        Parts of names joined by ``/``; empty for the whole bucket.
    """

    scheme: str
    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        """The place in the one way it is written."""
        folder = f"/{self.prefix}" if self.prefix else ""
        return f"{self.scheme}://{self.bucket}{folder}"

    @classmethod
    def parse(cls, uri: str) -> CloudPlace:
        """Read ``scheme://bucket/prefix``.

        Raises InvalidInputError for anything else. The text is not shown where it could hold a
        secret.
        """
        scheme, _, rest = uri.partition("://")
        if any(mark in rest for mark in "@?#"):
            raise InvalidInputError(
                f"a {scheme}:// URI with a user, a password, a query or a fragment is not taken, "
                "since URIs are shown in errors and logs",
                hint=f"write {scheme}://bucket/folder, and give secrets as credentials=",
                scheme=scheme,
            )
        bucket, _, prefix = rest.partition("/")
        prefix = prefix.removesuffix("/")
        if _BUCKET.fullmatch(bucket) is None:
            raise InvalidInputError(
                f"{bucket!r:.80} cannot name a bucket in {CLOUDS[scheme]}",
                hint=f"write {scheme}://bucket/folder; a bucket has 3 or more of a-z 0-9 . _ -",
                scheme=scheme,
            )
        if bucket.endswith(_DIRECTORY_BUCKET):
            raise InvalidInputError(
                f"{bucket!r} is a directory bucket, which lists names without an order",
                hint="keep the store in a general purpose bucket",
                scheme=scheme,
            )
        parts = prefix.split("/") if prefix else []
        if len(prefix) > _PREFIX_CHARACTERS or any(_PART.fullmatch(part) is None for part in parts):
            raise InvalidInputError(
                f"{prefix!r:.80} cannot name a folder in a bucket",
                hint="parts of A-Z a-z 0-9 _ . = - joined by single '/', at most "
                f"{_PREFIX_CHARACTERS} characters",
                scheme=scheme,
            )
        return cls(scheme, bucket, prefix)
