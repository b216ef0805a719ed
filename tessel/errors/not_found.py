"""What was named does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from tessel.errors.names import nearest, shown, suggestion
from tessel.errors.root import TesselError

__all__ = [
    "ColumnNotFoundError",
    "NameNotFoundError",
    "NotFoundError",
    "RefNotFoundError",
    "SnapshotExpiredError",
    "StoreNotFoundError",
    "SymbolNotFoundError",
    "UnknownVerbError",
    "VersionNotFoundError",
]


class NotFoundError(TesselError, LookupError):
    """Something that was named does not exist."""

    kind = "not-found"


class ColumnNotFoundError(NotFoundError, KeyError):
    """A column that was named does not exist."""

    kind = "column-not-found"

    @classmethod
    def for_name(
        cls,
        name: str,
        existing: Sequence[str],
        *,
        where: str | None = None,
        source: str | None = None,
        column: int | None = None,
    ) -> Self:
        """Make the error for an unknown column.

        Parameters
        ----------
        name, existing
            The name asked for and the columns that exist.
        where
            What it was looked for in, for instance ``'flights' (version 7)``.
        source, column
            The text it was written in and the 0-based place of the name in it; shown with a caret.
        """
        detail = None
        if source is not None:
            at = source.find(name) if column is None else column
            detail = source if at < 0 else f"{source}\n{' ' * at}{'^' * max(1, len(name))}"
        place = f" in {where}" if where else ""
        return cls(
            f"no column {name!r}{place}",
            detail=detail,
            column=name,
            **suggestion(name, existing, "columns"),
        )


class SymbolNotFoundError(NotFoundError, KeyError):
    """A symbol that was named does not exist at that version."""

    kind = "symbol-not-found"

    @classmethod
    def for_name(cls, name: str, existing: Sequence[str], *, version: int | None = None) -> Self:
        """Make the error for an unknown symbol; ``version`` says where it was looked for."""
        at = "" if version is None else f" at version {version}"
        return cls(
            f"no symbol {name!r} in the store{at}",
            symbol=name,
            **suggestion(name, existing, "symbols"),
        )


class VersionNotFoundError(NotFoundError):
    """A version that was asked for does not exist."""

    kind = "version-not-found"

    @classmethod
    def for_version(cls, version: object, *, newest: int) -> Self:
        """Make the error for an unknown version number."""
        return cls(
            f"no version {shown(version)} in the store",
            hint=f"versions run from 0 (empty) to {newest} (the newest)",
            version=shown(version),
            newest=newest,
        )


class RefNotFoundError(VersionNotFoundError):
    """A branch or tag that was named does not exist."""

    kind = "ref-not-found"

    @classmethod
    def for_name(cls, what: str, name: str, existing: Sequence[str]) -> Self:
        """Make the error; ``what`` is ``"branch"``, ``"tag"`` or ``"branch or tag"``."""
        plural = {"branch": "branches", "tag": "tags"}.get(what, "branches and tags")
        return cls(
            f"no {what} {name!r} in the store",
            name=name,
            **suggestion(name, existing, plural),
        )


class SnapshotExpiredError(VersionNotFoundError):
    """A version that existed and was given up by ``expire``."""

    kind = "snapshot-expired"

    @classmethod
    def for_version(cls, version: object, *, newest: int, oldest: int = 0) -> Self:
        """Make the error for a version before ``oldest``, the oldest one that is kept."""
        return cls(
            f"version {version} was expired",
            hint=f"versions {oldest} to {newest} are kept, and those that have a tag",
            version=str(version),
            oldest=oldest,
            newest=newest,
        )


class NameNotFoundError(NotFoundError, KeyError):
    """A clause, aggregate, executor or option that was named does not exist."""

    kind = "name-not-found"

    @classmethod
    def for_name(cls, what: str, name: str, existing: Sequence[str]) -> Self:
        """Make the error; ``what`` is the sort of thing in the singular, such as ``"clause"``."""
        plural = f"{what}es" if what.endswith("s") else f"{what}s"
        return cls(
            f"no {what} {name!r}",
            name=name,
            **suggestion(name, existing, plural),
        )


class UnknownVerbError(NotFoundError, AttributeError):
    """A method of a query that does not exist."""

    kind = "verb-not-found"

    @classmethod
    def for_name(cls, name: str, existing: Sequence[str], synonyms: Mapping[str, str]) -> Self:
        """Make the error; ``synonyms`` maps words of other libraries to ours."""
        match = synonyms.get(name) or nearest(name, existing)
        return cls(
            f"a query has no verb {name!r}",
            hint=(f"did you mean {match!r}?   " if match else "") + f"verbs: {', '.join(existing)}",
            name=name,
            nearest=match,
        )


class StoreNotFoundError(NotFoundError, FileNotFoundError):
    """There is no store at a place: none was to be made, or it is gone since it was opened."""

    kind = "store-not-found"

    @classmethod
    def at(cls, uri: str, *, read_only: bool = False) -> Self:
        """Make the error for a place without a store; one opened ``read_only`` is never made."""
        way = "read_only=False" if read_only else "create=True"
        return cls(
            f"no store at {uri!r}",
            hint=f"open it with {way} to make one, or check the path",
            uri=uri,
        )

    @classmethod
    def gone(cls, uri: str) -> Self:
        """Make the error for a store that was open and is not there any more."""
        return cls(
            f"the store at {uri!r} is gone: it was open, and now there is nothing",
            hint="check whether the disk or share is mounted, or whether somebody deleted the "
            "store; it can be used on once it is back",
            uri=uri,
        )
