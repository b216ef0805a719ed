"""What went wrong in a cloud, told as our own errors and without a secret.

:mod:`tessel.store.objects.cloud` enters here. The text of the library's errors holds whole URLs and
answers of servers; it is searched for a status and a code, and never passed on.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Final

from tessel.errors import StoreAccessError, StoreBusyError, StoreError, StoreNotFoundError
from tessel.lazy import dataclass

_STATUS: Final = re.compile(r"status code: ([1-5]\d\d)\b")
_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_REDIRECT: Final = "Received redirect"
_BUSY_STATUSES: Final = (429, 503)
_BUSY_CODES: Final = ("SlowDown", "ServerBusy", "TooManyRequests")
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")


class Failure(enum.Enum):
    """What a failed request means for the object that it was about."""

    ABSENT = "absent"
    EXISTS = "exists"
    NO_BUCKET = "no bucket"
    REFUSED = "refused"
    BUSY = "busy"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CloudFailure:
    """A failed request.

    Attributes
    ----------
    kind
        What it means. Only :attr:`Failure.UNKNOWN` leaves open whether the server did what it was
        asked: the request timed out, its connection broke, or the server failed on the way.
    status
        HTTP status of the answer; None where there was none.
    code
        The provider's word for it, such as ``"SlowDown"``; None where there was none.
    """

    kind: Failure
    status: int | None
    code: str | None

    @classmethod
    def of(cls, error: BaseException) -> CloudFailure:
        """Read what obstore raised."""
        text = str(error)
        status_found, code_found = _STATUS.search(text), _CODE.search(text)
        status = int(status_found[1]) if status_found else None
        code = code_found[1] if code_found else None
        if status is None and _REDIRECT in text:
            code = "Redirect"
        return cls(_kind(error, status, code), status, code)

    @property
    def definite(self) -> bool:
        """Whether "exists" means that: S3 says 409 also while another request is under way."""
        return self.status == 412 or self.code == "BlobAlreadyExists"

    @property
    def told(self) -> str:
        """The failure in words."""
        if self.code == "Redirect":
            return "the server sends the request elsewhere, as for a bucket of another region"
        if self.status is None:
            return "no usable answer came" if self.kind is Failure.UNKNOWN else self.kind.value
        return f"the server answered {self.status}" + (f" {self.code}" if self.code else "")


def _kind(error: BaseException, status: int | None, code: str | None) -> Failure:
    if code in _NO_BUCKET:
        return Failure.NO_BUCKET
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return Failure.ABSENT
    if name == "AlreadyExistsError":
        return Failure.EXISTS
    if name in ("PermissionDeniedError", "UnauthenticatedError"):
        return Failure.REFUSED
    if status in _BUSY_STATUSES and (status == 429 or code in _BUSY_CODES):
        return Failure.BUSY
    if code == "Redirect" or (status is not None and 400 <= status < 500 and status != 408):
        return Failure.REJECTED
    return Failure.UNKNOWN


def failed(
    what: str, name: str, uri: str, failure: CloudFailure, why: str | None = None, **more: Any
) -> StoreError | StoreNotFoundError:
    """Make the error for a request that failed for good.

    Parameters
    ----------
    what, name, uri
        The act, the object or prefix it was about, and the store.
    why
        What is known beyond it, such as a failure of the function that gives credentials.
    """
    attributes = {
        "object": name,
        "uri": uri,
        "status": failure.status,
        "code": failure.code,
        **more,
    }
    if failure.kind is Failure.NO_BUCKET:
        return StoreNotFoundError(
            f"there is no bucket for {uri!r}",
            hint="buckets are not made by opening a store: make it first, or check its name and "
            "the endpoint",
            **attributes,
        )
    message = f"could not {what} {name!r} in {uri!r}: {why or failure.told}"
    if failure.kind is Failure.REFUSED:
        return StoreAccessError(
            message,
            hint="check the credentials, their expiry, and what they are allowed to do",
            **attributes,
        )
    if failure.kind is Failure.BUSY:
        return StoreBusyError(
            message, hint="too many requests for the store: try again later", **attributes
        )
    return StoreError(message, **attributes)
