"""Arguments, tables and plans that cannot be taken; nothing was changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tessel.errors.names import nearest, suggestion
from tessel.errors.root import TesselError

__all__ = [
    "AggregateError",
    "DuplicateColumnError",
    "IndexColumnError",
    "InvalidInputError",
    "OptionError",
    "PlanError",
    "PlanFormatError",
    "RefNameError",
    "RowFormatError",
    "RowSpaceError",
    "SchemaMismatchError",
    "SymbolNameError",
    "UnsortedIndexError",
    "UnsupportedTypeError",
]


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
            hint=suggestion(index, list(existing), "columns"),
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
