"""The one exception tree: every error that Tessel raises on purpose.

An error says what was asked, what exists, the nearest match and what to do. It has a stable
``kind`` (part of the public interface, unlike the text), the facts as ``attributes``, and it also
inherits the nearest builtin, so ``except KeyError`` works as well as ``except TesselError``.
Messages are made by the classmethods here and nowhere else, so that one fact is always told in
the same words.

::

    TesselError
    ├── NotFoundError (LookupError)                not-found
    │   ├── ColumnNotFoundError (KeyError)         column-not-found
    │   ├── SymbolNotFoundError (KeyError)         symbol-not-found
    │   ├── VersionNotFoundError                   version-not-found
    │   │   ├── RefNotFoundError                   ref-not-found
    │   │   └── SnapshotExpiredError               snapshot-expired
    │   ├── NameNotFoundError (KeyError)           name-not-found
    │   ├── UnknownVerbError (AttributeError)      verb-not-found
    │   └── StoreNotFoundError (FileNotFoundError) store-not-found
    ├── InvalidInputError (ValueError)             invalid-input
    │   ├── OptionError                            option-invalid
    │   ├── SymbolNameError                        symbol-name-invalid
    │   ├── RefNameError                           ref-name-invalid
    │   ├── IndexColumnError                       index-invalid
    │   ├── UnsortedIndexError                     index-unsorted
    │   ├── DuplicateColumnError                   column-duplicate
    │   ├── SchemaMismatchError                    schema-mismatch
    │   ├── UnsupportedTypeError (TypeError)       type-unsupported
    │   ├── RowFormatError                         row-format
    │   ├── RowSpaceError                          row-space
    │   └── PlanError                              plan-invalid
    │       ├── PlanFormatError                    plan-format
    │       └── AggregateError (TypeError)         aggregate-invalid
    ├── ExpressionError (ValueError)               expression-invalid
    │   ├── ExpressionSyntaxError                  expression-syntax
    │   ├── ExpressionTypeError (TypeError)        expression-type
    │   ├── ExpressionDepthError (RecursionError)  expression-depth
    │   └── TruthValueError (TypeError)            expression-truth
    ├── IntegerOverflowError (OverflowError)       integer-overflow
    ├── StoreError (OSError)                       store-failed
    │   ├── NotAStoreError                         not-a-store
    │   ├── FormatVersionError                     format-version
    │   ├── CorruptStoreError                      store-corrupt
    │   │   └── CorruptSegmentError                segment-corrupt
    │   ├── ReadOnlyStoreError (PermissionError)   store-read-only
    │   ├── StoreExistsError (FileExistsError)     store-exists
    │   ├── RefExistsError (FileExistsError)       ref-exists
    │   ├── StoreAccessError (PermissionError)     store-access-denied
    │   ├── StoreBusyError                         store-busy
    │   ├── CommitConflictError                    commit-conflict
    │   ├── CommitUnknownError                     commit-unknown
    │   ├── LeaseExpiredError                      lease-expired
    │   └── ReferenceChangedError                  reference-changed
    ├── ExecutionError (RuntimeError)              execution-failed
    │   ├── ClauseFailedError                      clause-failed
    │   ├── SchemaPromiseError                     schema-promise
    │   ├── SpillError                             spill-failed
    │   └── CancelledError                         cancelled
    ├── MissingDependencyError (ImportError)       dependency-missing
    ├── ForkUnsafeError (RuntimeError)             fork-unsafe
    └── SparkError (RuntimeError)                  spark-failed
        ├── JavaNotFoundError                      java-not-found
        └── StoreNotVisibleError                   store-not-visible
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

__all__ = [
    "AggregateError",
    "CancelledError",
    "ClauseFailedError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptSegmentError",
    "CorruptStoreError",
    "DuplicateColumnError",
    "ExecutionError",
    "ExpressionDepthError",
    "ExpressionError",
    "ExpressionSyntaxError",
    "ExpressionTypeError",
    "ForkUnsafeError",
    "FormatVersionError",
    "IndexColumnError",
    "IntegerOverflowError",
    "InvalidInputError",
    "JavaNotFoundError",
    "LeaseExpiredError",
    "MissingDependencyError",
    "NameNotFoundError",
    "NotAStoreError",
    "NotFoundError",
    "OptionError",
    "PlanError",
    "PlanFormatError",
    "ReadOnlyStoreError",
    "RefExistsError",
    "RefNameError",
    "RefNotFoundError",
    "ReferenceChangedError",
    "RowFormatError",
    "RowSpaceError",
    "SchemaMismatchError",
    "SchemaPromiseError",
    "SnapshotExpiredError",
    "SparkError",
    "SpillError",
    "StoreAccessError",
    "StoreBusyError",
    "StoreError",
    "StoreExistsError",
    "StoreNotFoundError",
    "StoreNotVisibleError",
    "SymbolNameError",
    "SymbolNotFoundError",
    "TesselError",
    "TruthValueError",
    "UnknownVerbError",
    "UnsortedIndexError",
    "UnsupportedTypeError",
    "VersionNotFoundError",
    "nearest",
]

_LISTED_NAMES = 8


def nearest(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name closest to ``name``, or None where none is close."""
    candidates = list(existing)
    folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED_NAMES])
    return shown + (f", … ({len(names)} in all)" if len(names) > _LISTED_NAMES else "")


def _suggestion(name: str, existing: Sequence[str], what: str) -> str:
    match = nearest(name, existing)
    start = f"did you mean {match!r}?   " if match else ""
    return f"{start}{what}: {_listed(existing)}" if existing else f"there are no {what}"


class TesselError(Exception):
    """Root of all errors raised on purpose.

    Parameters
    ----------
    message
        What was asked and what is wrong with it, one line.
    hint
        What to do about it: the nearest match, what exists, a way out.
    detail
        Lines shown between message and hint, such as source text with a caret.
    **attributes
        The facts as plain JSON values, for programs.
    """

    kind: ClassVar[str] = "tessel"

    def __init__(
        self, message: str, *, hint: str | None = None, detail: str | None = None, **attributes: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.attributes: dict[str, Any] = attributes
        self.context: dict[str, str] = {}

    def with_context(self, **context: str | None) -> Self:
        """Add where it happened (clause, symbol, segment, expression); the innermost wins."""
        for name, value in context.items():
            if value is not None:
                self.context.setdefault(name, value)
        return self

    def __str__(self) -> str:
        lines = [f"[{self.kind}] {self.message}"]
        if self.detail:
            lines += [f"    {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines += [f"  {line}" for line in self.hint.splitlines()]
        lines += [f"  in {name}: {value}" for name, value in self.context.items()]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.to_json(),))

    def to_json(self) -> dict[str, Any]:
        """Return the error as plain data, to be carried between processes as text."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "detail": self.detail,
            "attributes": json.loads(json.dumps(self.attributes, default=str)),
            "context": dict(self.context),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TesselError:
        """Rebuild an error of the class that its ``kind`` names (the root for an unknown kind)."""
        return _restore(data)


def _walk(cls: type[TesselError]) -> Iterator[type[TesselError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _walk(child)


def _restore(data: Mapping[str, Any]) -> TesselError:
    cls = next((c for c in _walk(TesselError) if c.kind == data.get("kind")), TesselError)
    # Made by the builtin whose memory layout the class has: the first __new__ in the order of
    # resolution may be another builtin's, which refuses (a LookupError that is also an OSError).
    layout: Any = cls
    while issubclass(layout, TesselError) and layout.__base__ is not None:
        layout = layout.__base__
    error: TesselError = layout.__new__(cls)
    attributes = data.get("attributes")
    TesselError.__init__(
        error,
        str(data.get("message", "")),
        hint=data.get("hint"),
        detail=data.get("detail"),
        **(attributes if isinstance(attributes, dict) else {}),
    )
    context = data.get("context")
    error.context = (
        {str(k): str(v) for k, v in context.items()} if isinstance(context, dict) else {}
    )
    return error


# --- not found ------------------------------------------------------------------------------------


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
            hint=_suggestion(name, list(existing), "columns"),
            detail=detail,
            column=name,
            existing=list(existing),
            nearest=nearest(name, existing),
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
            hint=_suggestion(name, list(existing), "symbols"),
            symbol=name,
            existing=list(existing),
            nearest=nearest(name, existing),
        )


class VersionNotFoundError(NotFoundError):
    """A version that was asked for does not exist."""

    kind = "version-not-found"

    @classmethod
    def for_version(cls, version: object, *, newest: int) -> Self:
        """Make the error for an unknown version number."""
        return cls(
            f"no version {version!r} in the store",
            hint=f"versions run from 0 (empty) to {newest} (the newest)",
            version=str(version),
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
            hint=_suggestion(name, list(existing), plural),
            name=name,
            existing=list(existing),
            nearest=nearest(name, existing),
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
            hint=_suggestion(name, list(existing), plural),
            name=name,
            existing=list(existing),
            nearest=nearest(name, existing),
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
    """There is no store at a place that was opened with ``create=False`` or read-only."""

    kind = "store-not-found"

    @classmethod
    def at(cls, uri: str) -> Self:
        """Make the error for a place without a store."""
        return cls(
            f"no store at {uri!r}",
            hint="open it with create=True to make one, or check the path",
            uri=uri,
        )


# --- invalid input --------------------------------------------------------------------------------


class InvalidInputError(TesselError, ValueError):
    """An argument or a table that cannot be taken; nothing was changed."""

    kind = "invalid-input"


class OptionError(InvalidInputError):
    """An option of the wrong type or outside its range."""

    kind = "option-invalid"


class SymbolNameError(InvalidInputError):
    """A text that cannot name a symbol."""

    kind = "symbol-name-invalid"


class RefNameError(InvalidInputError):
    """A text that cannot name a branch or a tag."""

    kind = "ref-name-invalid"


class IndexColumnError(InvalidInputError):
    """A time index that is absent, has missing values, or is of a type that has no order."""

    kind = "index-invalid"

    @classmethod
    def absent(cls, index: str, existing: Sequence[str]) -> Self:
        """Make the error for a table without the column named as its index."""
        return cls(
            f"the table has no column {index!r} to be its index",
            hint=_suggestion(index, list(existing), "columns"),
            index=index,
            existing=list(existing),
            nearest=nearest(index, existing),
        )

    @classmethod
    def required(cls, what: str) -> Self:
        """Make the error for a clause that needs a time index where the table has none."""
        return cls(
            f"{what} needs a time index, and the table has none here",
            hint='write the symbol with index="column", or keep the index column in the projection',
            clause=what,
        )


class UnsortedIndexError(InvalidInputError):
    """An index that goes back in time."""

    kind = "index-unsorted"


class DuplicateColumnError(InvalidInputError):
    """Two columns of one name."""

    kind = "column-duplicate"


class SchemaMismatchError(InvalidInputError):
    """A table whose columns or types differ from those of the symbol it is written to."""

    kind = "schema-mismatch"


class UnsupportedTypeError(InvalidInputError, TypeError):
    """A column type that Tessel does not store, refused by name."""

    kind = "type-unsupported"


class RowFormatError(InvalidInputError):
    """Bytes that are not event rows of the schema; none of them was taken."""

    kind = "row-format"


class RowSpaceError(InvalidInputError):
    """No room for a row, or for a text of it, in the memory given; the row is as it was."""

    kind = "row-space"


class PlanError(InvalidInputError):
    """A query that cannot be run as written; found before any data is read."""

    kind = "plan-invalid"


class PlanFormatError(PlanError):
    """The JSON form of a plan that is not one."""

    kind = "plan-format"


class AggregateError(PlanError, TypeError):
    """An aggregate that does not exist for a column's type."""

    kind = "aggregate-invalid"


# --- expressions ----------------------------------------------------------------------------------


class ExpressionError(TesselError, ValueError):
    """An expression that means nothing."""

    kind = "expression-invalid"


class ExpressionSyntaxError(ExpressionError):
    """Text that is not an expression; ``detail`` shows the place."""

    kind = "expression-syntax"


class ExpressionTypeError(ExpressionError, TypeError):
    """Operands whose types do not go together; names the column, both types and a way out."""

    kind = "expression-type"


class ExpressionDepthError(ExpressionError, RecursionError):
    """An expression nested more deeply than the limit."""

    kind = "expression-depth"


class TruthValueError(ExpressionError, TypeError):
    """An expression used where Python wants True or False."""

    kind = "expression-truth"


class IntegerOverflowError(TesselError, OverflowError):
    """Integer arithmetic or an integer sum past 64 bits; results never wrap."""

    kind = "integer-overflow"


# --- stores ---------------------------------------------------------------------------------------


class StoreError(TesselError, OSError):
    """A store that cannot be read or written."""

    kind = "store-failed"


class NotAStoreError(StoreError):
    """A place that holds something else; it is left as it is."""

    kind = "not-a-store"


class FormatVersionError(StoreError):
    """A store or file of a format version that this release does not read."""

    kind = "format-version"


class CorruptStoreError(StoreError):
    """An object of the store that is damaged or missing."""

    kind = "store-corrupt"


class CorruptSegmentError(CorruptStoreError):
    """A damaged segment; names object, column and page where they are known."""

    kind = "segment-corrupt"


class ReadOnlyStoreError(StoreError, PermissionError):
    """A write to a store that was opened read-only."""

    kind = "store-read-only"


class StoreExistsError(StoreError, FileExistsError):
    """A store where a new one was asked for."""

    kind = "store-exists"


class RefExistsError(StoreError, FileExistsError):
    """A branch or tag of a name that is in use, or that belonged to a deleted tag."""

    kind = "ref-exists"


class StoreAccessError(StoreError, PermissionError):
    """Credentials that are missing, expired, or not allowed to do what was asked."""

    kind = "store-access-denied"


class StoreBusyError(StoreError):
    """A store that answers "later" for longer than was waited."""

    kind = "store-busy"


class CommitConflictError(StoreError):
    """Another commit changed the same rows first; nothing of this one was written."""

    kind = "commit-conflict"


class CommitUnknownError(StoreError):
    """It is not known whether a commit landed; ``resolve`` of the store answers later."""

    kind = "commit-unknown"


class LeaseExpiredError(StoreError):
    """What a session wrote or read may have been collected: it took longer than its lease."""

    kind = "lease-expired"


class ReferenceChangedError(StoreError):
    """Data held elsewhere that is not what a reference says: shorter, or other bytes."""

    kind = "reference-changed"


# --- execution ------------------------------------------------------------------------------------


class ExecutionError(TesselError, RuntimeError):
    """A query that failed while it ran."""

    kind = "execution-failed"


class ClauseFailedError(ExecutionError):
    """A clause raised an error of its own; it is the ``__cause__``."""

    kind = "clause-failed"


class SchemaPromiseError(ExecutionError):
    """A clause returned something other than its ``output_schema`` promised."""

    kind = "schema-promise"


class SpillError(ExecutionError):
    """A query could not put aside, or get back, what does not fit in its byte budget."""

    kind = "spill-failed"


class CancelledError(ExecutionError):
    """The query was cancelled."""

    kind = "cancelled"


class MissingDependencyError(TesselError, ImportError):
    """An optional package that is needed for what was asked is not installed."""

    kind = "dependency-missing"

    @classmethod
    def for_extra(cls, package: str, extra: str, what: str) -> Self:
        """Make the error: ``what`` needs ``package``, which comes with ``tessel[extra]``."""
        return cls(
            f"{what} needs the package {package!r}, which is not installed",
            hint=f'pip install "tessel[{extra}]"',
            package=package,
            extra=extra,
        )


class ForkUnsafeError(TesselError, RuntimeError):
    """What a forked process has of its parent, and cannot use: a query under way, a cloud store."""

    kind = "fork-unsafe"


class SparkError(TesselError, RuntimeError):
    """Spark could not be started, or a job failed outside our own code."""

    kind = "spark-failed"


class JavaNotFoundError(SparkError):
    """No Java runtime that Spark can use."""

    kind = "java-not-found"


class StoreNotVisibleError(SparkError):
    """A store that the workers of a Spark job cannot open, such as ``memory://``."""

    kind = "store-not-visible"
