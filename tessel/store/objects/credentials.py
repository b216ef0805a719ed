"""Who may read and write in a cloud: typed secrets, which no text of ours ever shows.

Users enter here, through ``tessel.open(uri, credentials=...)``. Secrets are in these objects only:
never in a URI, a ``repr``, an error, a log or an event. What expires is given as a function that
returns new credentials; it is called again shortly before the last ones expire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field, fields
from datetime import datetime
from typing import Any, Final, NoReturn, Self, SupportsIndex, TypeAlias

from tessel.errors import InvalidInputError, StoreAccessError
from tessel.lazy import dataclass

_OBSTORE_NAMES: Final = {"session_token": "token"}


class _Secret:
    """Texts that stay in their process: what is pickled is sent, kept and logged by others."""

    __slots__ = ()
    expires_at: datetime | None

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # each subclass is a dataclass
            value = getattr(self, each.name)
            if each.name != "expires_at" and (value is not None or each.default is MISSING):
                _check_text(type(self).__name__, each.name, value)
        expires_at: object = self.expires_at
        if expires_at is not None and (
            not isinstance(expires_at, datetime) or expires_at.tzinfo is None
        ):
            raise InvalidInputError(
                "expires_at is a datetime with a time zone, or None", field="expires_at"
            )

    def as_obstore(self) -> dict[str, Any]:
        """Return them as obstore takes them from a provider."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return {_OBSTORE_NAMES.get(name, name): getattr(self, name) for name in names}

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        name = type(self).__name__
        raise StoreAccessError(
            f"{name} is not pickled: it holds a secret",
            hint="hand over a function that returns the credentials where it is called: functions "
            "are pickled by their name",
        )

    def __copy__(self) -> Self:
        return self  # frozen

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class S3Credentials(_Secret):
    """A key for Amazon S3, and for what speaks its protocol.

    Attributes
    ----------
    access_key_id, secret_access_key
        The pair of keys.
    session_token
        The third part of temporary credentials.
    expires_at
        When they end, with a time zone; None for never.

    Raises
    ------
    InvalidInputError
        For an empty key, or an instant without a time zone.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GoogleCredentials(_Secret):
    """An OAuth 2 access token for Google Cloud Storage.

    Attributes
    ----------
    token
        The bearer token.
    expires_at
        When it ends, with a time zone; None for never.

    Raises
    ------
    InvalidInputError
        For an empty token, or an instant without a time zone.
    """

    token: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AzureCredentials(_Secret):
    """One of the three ways into Azure Blob Storage.

    Attributes
    ----------
    access_key
        The key of the storage account.
    sas_token
        A shared access signature: a query string, with or without its ``?``.
    token
        A bearer token of Microsoft Entra ID.
    expires_at
        When it ends, with a time zone; None for never.

    Raises
    ------
    InvalidInputError
        Unless exactly one of the three is given, or for an instant without a time zone.
    """

    access_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in self._ways().items() if value is not None]
        if len(given) != 1:
            raise InvalidInputError(
                f"AzureCredentials takes one of access_key, sas_token and token; {len(given)} were "
                "given"
            )
        _Secret.__post_init__(self)

    def _ways(self) -> dict[str, str | None]:
        return {"access_key": self.access_key, "sas_token": self.sas_token, "token": self.token}

    def as_obstore(self) -> dict[str, Any]:
        """Return them as obstore takes them from a provider."""
        way, value = next((way, value) for way, value in self._ways().items() if value is not None)
        if way == "sas_token":
            value = value.removeprefix("?")
        return {way: value, "expires_at": self.expires_at}


Credentials: TypeAlias = S3Credentials | GoogleCredentials | AzureCredentials
CredentialsSource: TypeAlias = Credentials | Callable[[], Credentials]
"""Credentials, or what returns fresh ones; it is called from other threads."""

TYPES: Final[dict[str, type[Credentials]]] = {
    "s3": S3Credentials,
    "gs": GoogleCredentials,
    "az": AzureCredentials,
}
"""Which credentials each scheme takes."""


class Provider:
    """What obstore asks for credentials; keeps why the last answer was refused.

    Raises InvalidInputError for credentials of another kind.

    Parameters
    ----------
    scheme
        ``"s3"``, ``"gs"`` or ``"az"``.
    source
        Credentials of that scheme, or a function that returns them.
    """

    def __init__(self, scheme: str, source: CredentialsSource) -> None:
        self._type = TYPES[scheme]
        self._source = source
        self.failure: str | None = None
        if not callable(source):
            self._checked(source)

    def __call__(self) -> dict[str, Any]:
        """Return credentials as obstore takes them."""
        try:
            found = self._checked(self._source() if callable(self._source) else self._source)
        except BaseException as error:
            # Only the type: the text of somebody else's error may hold what it was made of.
            self.failure = f"the function that gives the credentials raised {type(error).__name__}"
            if isinstance(error, InvalidInputError):
                self.failure = f"{self.failure}: {error.message}"
            # obstore shows the traceback of what is raised here, and with it lines of source.
            raise RuntimeError("no credentials") from None
        self.failure = None
        return found.as_obstore()

    def _checked(self, found: object) -> Credentials:
        if not isinstance(found, self._type):
            raise InvalidInputError(
                f"this store takes {self._type.__name__}, or a function that returns them, not "
                f"{type(found).__name__}"
            )
        return found


def _check_text(owner: str, name: str, value: object) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        kind = "an empty or unprintable text" if isinstance(value, str) else type(value).__name__
        raise InvalidInputError(f"{owner}: {name} is text, and was given {kind}", field=name)
