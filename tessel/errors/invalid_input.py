"""Arguments, tables, plans and expressions that cannot be taken; nothing was changed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Self

from tessel.errors.names import raise_the_limit, shown, suggestion
from tessel.errors.root import TesselError

__all__ = [
    "AggregateError",
    "ArgumentCountError",
    "DuplicateColumnError",
    "ExpressionDepthError",
    "ExpressionError",
    "ExpressionSyntaxError",
    "ExpressionTypeError",
    "IndexColumnError",
    "IntegerOverflowError",
    "InvalidInputError",
    "LimitError",
    "OptionError",
    "PlanError",
    "PlanFormatError",
    "RefNameError",
    "RowFormatError",
    "RowSpaceError",
    "SchemaMismatchError",
    "SymbolNameError",
    "TruthValueError",
    "UnicodeTextError",
    "UnknownArgumentError",
    "UnsortedIndexError",
    "UnsupportedTypeError",
]

_VALUES = (
    "values are None, bool, int, float, text, bytes, Decimal, dates, times, timestamps, durations, "
    "and numpy, pandas or Arrow scalars of such types"
)
_SYSTEMS = {
    **{"polars": "Polars", "pyspark": "Spark", "ibis": "Ibis", "narwhals": "narwhals"},
    **{"duckdb": "DuckDB", "_duckdb": "DuckDB", "pandas": "pandas"},
}
"""Whose expressions people bring, by the package of their class."""


_MAY_BE_SECRET = ("credentials", "options", "uri")


class InvalidInputError(TesselError, ValueError, kind="invalid-input"):
    """An argument or a table that cannot be taken; nothing was changed."""

    @classmethod
    def no_regex(cls, pattern: object, fault: str) -> Self:
        """Make the error for a pattern over names that RE2 does not compile."""
        return cls(
            f"{shown(pattern)} is no regular expression: {fault}",
            hint="the syntax is RE2's: no backreferences and no look-around",
        )

    @classmethod
    def not_writable(cls, path: object, error: Exception) -> Self:
        """Make the error for a file that is to be written, and cannot be."""
        return cls(
            f"no file can be written at {shown(path)}: {error}",
            hint="give the path of a file in a folder that exists",
        )

    @classmethod
    def too_deep(cls, where: str) -> Self:
        """Make the error for values that hold one another without end, or nearly so."""
        return cls(
            f"{where}: a value is nested too deeply to be read",
            hint="a list that holds itself has no end; Arrow takes some 64 lists in lists",
        )

    @classmethod
    def for_argument(cls, function: str, argument: str, wanted: str, value: object) -> Self:
        """Make the error for an argument of the wrong type; ``wanted`` says the right one.

        Of what may hold a secret, only the type is shown.
        """
        told = type(value).__name__
        if argument not in _MAY_BE_SECRET:
            with contextlib.suppress(Exception):  # of somebody else's __repr__
                told = f"{value!r:.80}"
        return cls(
            f"{function}: {argument} takes {wanted}, not {told}",
            function=function,
            argument=argument,
        )

    @classmethod
    def no_value(cls, value: object) -> Self:
        """Make the error for what is not one value of a type that columns have."""
        system = type(value).__module__.partition(".")[0]
        name, hint = type(value).__name__, _VALUES
        if name in ("Expr", "Column", "Deferred", "Expression") and system in _SYSTEMS:
            name = f"{_SYSTEMS[system]} expression"
            hint = 'write it as ts.col("price") > 1, or as text: "price > 1"'
        elif hasattr(value, "_goes_on"):
            name, hint = "choice without its end", value._goes_on
        elif callable(value) and not isinstance(value, type):
            hint = (
                'rows are not given to functions: write ts.col("price") > 1, or "price > 1"; a '
                "function over whole tables is a clause of your own"
            )
        elif hasattr(value, "__len__"):
            hint = (
                "of many values, or a mask with one for each row, there is none for a row: write "
                'the condition, ts.col("price") > 1; is_in([1, 2]) asks for some values, and '
                "take([0, 2]) for rows by their positions"
            )
        article = "an" if name[:1].lower() in "aeiou" else "a"
        return cls(
            f"{article} {name} is not a value that can be taken",
            hint=hint,
            type=type(value).__name__,
        )

    @classmethod
    def unfit_value(cls, value: object, kind: object = None, why: str | None = None) -> Self:
        """Make the error for a value that a type, or any type, does not hold exactly."""
        holder = "an Arrow type" if kind is None else str(kind)
        return cls(
            f"{shown(value)} does not fit {holder}" + (f": {why}" if why else ""),
            hint="give a value of the type's unit and range, or take a wider or finer type",
            type=type(value).__name__,
        )

    @classmethod
    def zoned_time(cls, value: object) -> Self:
        """Make the error for a time of day with a zone, which no column holds."""
        return cls(
            f"{shown(value)} is a time of day with a zone, which no type holds",
            hint="give it without one: value.replace(tzinfo=None)",
        )

    @classmethod
    def no_fixed_length(cls, value: object) -> Self:
        """Make the error for months, years, and counts of no unit."""
        return cls(
            f"{shown(value)} has no length that is always the same",
            hint="give weeks, days, hours or less, such as numpy.timedelta64(30, 'D')",
        )

    @classmethod
    def exchanged(cls, what: str, first: object, last: object) -> Self:
        """Make the error for a range whose ends are exchanged."""
        return cls(
            f"{what} from {first!r} to {last!r} ends before it begins",
            hint="exchange the two",
        )


class UnknownArgumentError(InvalidInputError, TypeError, kind="argument-unknown"):
    """An argument by a name that a function does not have."""

    @classmethod
    def for_name(cls, function: str, name: str, existing: Sequence[str]) -> Self:
        """Make the error for an argument that was given by name."""
        from tessel.errors.foreign_names import foreign_arguments

        ours = foreign_arguments()
        found = ours.get((function, name)) or ours.get((function, "*"), "")
        told = suggestion(name, existing, "arguments")
        if found:
            told["hint"] = f"{found.format(name=name)}   arguments: {', '.join(existing)}"
        return cls(f"{function} has no argument {name!r}", function=function, argument=name, **told)


class ArgumentCountError(InvalidInputError, TypeError, kind="argument-count"):
    """A call with too few arguments, too many, or one of them given twice."""

    @classmethod
    def for_call(cls, function: str, why: TypeError, call: str) -> Self:
        """Make the error for what Python says of a call; ``call`` is how it is written."""
        return cls(f"{function}: {why}", hint=f"the call is {call}", function=function)


class OptionError(InvalidInputError, kind="option-invalid"):
    """An option of the wrong type or outside its range."""

    @classmethod
    def not_set(cls, option: str, value: object) -> Self:
        """Make the error for an option that was assigned to, which would hold for everybody."""
        return cls(
            f"option {option!r} is not set by assignment",
            hint=f"for a block, write with tessel.options({option}={value!r}): ...; for a process, "
            f"set TESSEL_{option.upper()} in its environment",
            option=option,
        )


class LimitError(InvalidInputError, kind="limit-exceeded"):
    """A query, expression or text that is larger than an option allows."""

    @classmethod
    def exceeded(cls, what: str, given: int, unit: str, *, option: str, limit: int) -> Self:
        """Make the error: ``what`` has ``given`` of something, of which ``limit`` are allowed."""
        return cls(
            f"{what} has {given:,} {unit}; the limit is {limit:,}",
            hint=raise_the_limit(option, given),
            option=option,
            given=given,
            limit=limit,
        )


class UnicodeTextError(InvalidInputError, UnicodeError, kind="text-not-unicode"):
    """A text with surrogates, which no UTF-8 can hold."""

    @classmethod
    def require(cls, text: str, what: str) -> None:
        """Raise the error where ``text`` has surrogates; ``what`` it is, such as a column name."""
        try:
            if not text.isascii():
                text.encode()
        except UnicodeEncodeError as error:
            raise cls(
                f"{what} has half of a surrogate pair, {text[error.start]!a}, "
                f"at character {error.start + 1}: "
                f"{text[max(0, error.start - 10) : error.start + 10]!a}",
                hint="decode bytes with errors='replace', or JSON with both halves of the pair",
                place=error.start,
            ) from None


class SymbolNameError(InvalidInputError, kind="symbol-name-invalid"):
    """A text that cannot name a symbol."""


class RefNameError(InvalidInputError, kind="ref-name-invalid"):
    """A text that cannot name a branch or a tag."""


class IndexColumnError(InvalidInputError, kind="index-invalid"):
    """A time index that is absent, has missing values, or is of a type that has no order."""

    @classmethod
    def absent(cls, index: str, existing: Sequence[str]) -> Self:
        """Make the error for a table without the column named as its index."""
        return cls(
            f"the table has no column {index!r} to be its index",
            index=index,
            **suggestion(index, existing, "columns"),
        )

    @classmethod
    def required(cls, what: str) -> Self:
        """Make the error for a clause that needs a time index where the table has none."""
        return cls(
            f"{what} needs a time index, and the table has none here",
            hint='write the symbol with index="column", or keep the index column in the projection',
            clause=what,
        )


class UnsortedIndexError(InvalidInputError, kind="index-unsorted"):
    """An index that goes back in time."""


class DuplicateColumnError(InvalidInputError, kind="column-duplicate"):
    """Two columns of one name."""


class SchemaMismatchError(InvalidInputError, kind="schema-mismatch"):
    """A table whose columns or types differ from those of the symbol it is written to."""


class UnsupportedTypeError(InvalidInputError, TypeError, kind="type-unsupported"):
    """A column type that Tessel does not store, refused by name."""


class RowFormatError(InvalidInputError, kind="row-format"):
    """Bytes that are not event rows of the schema; none of them was taken."""

    @classmethod
    def for_batch_of_wrong_length(cls, length: int) -> Self:
        """Make the error for a batch whose header tells a length that it does not have."""
        return cls(
            f"a batch of rows has {length} bytes by its header, and there it does not end: other "
            "batches lie in it to its end, or what follows is none",
            hint="the stream is damaged there: rows before the position are whole; take the rest "
            "from its sender",
        )


class RowSpaceError(InvalidInputError, kind="row-space"):
    """No room for a row, or for a text of it, in the memory given; the row is as it was."""


class PlanError(InvalidInputError, kind="plan-invalid"):
    """A query that cannot be run as written; found before any data is read."""


class PlanFormatError(PlanError, kind="plan-format"):
    """The JSON form of a plan that is not one."""


class AggregateError(PlanError, TypeError, kind="aggregate-invalid"):
    """An aggregate that does not exist for a column's type."""


class ExpressionError(TesselError, ValueError, kind="expression-invalid"):
    """An expression that means nothing."""


class ExpressionSyntaxError(ExpressionError, kind="expression-syntax"):
    """Text that is not an expression; ``detail`` shows the place."""


class ExpressionTypeError(ExpressionError, TypeError, kind="expression-type"):
    """Operands whose types do not go together; names the column, both types and a way out."""


class ExpressionDepthError(ExpressionError, RecursionError, kind="expression-depth"):
    """An expression nested more deeply than the limit."""

    @classmethod
    def exceeded(cls, depth: int, limit: int) -> Self:
        """Make the error for an expression of so many operators from itself to its columns."""
        return cls(
            f"the expression is nested {depth:,} deep; the limit is {limit:,}",
            hint="join many conditions with all_of(...) or any_of(...), which do not nest, and "
            f"compute long sums in steps with apply; or {raise_the_limit('max_depth', depth)}",
            option="max_depth",
            given=depth,
            limit=limit,
        )


class TruthValueError(ExpressionError, TypeError, kind="expression-truth"):
    """An expression used where Python wants True or False."""


class IntegerOverflowError(TesselError, OverflowError, kind="integer-overflow"):
    """Integer arithmetic or an integer sum past 64 bits; results never wrap."""

    @classmethod
    def of_group(
        cls, aggregate: str, column: str | None, value: int, result_type: object, *, hint: str
    ) -> Self:
        """Return the error of an aggregate whose result in one group does not fit its type.

        Parameters
        ----------
        aggregate, column
            The aggregate, and what it was computed of; None for a column without a name.
        value, result_type
            The result, and the Arrow type that does not hold it.
        hint
            What to do.
        """
        what = "a column" if column is None else f"column {column!r}"
        return cls(
            f"{aggregate} of {what} is {value} in one group, past {result_type}",
            hint=hint,
            aggregate=aggregate,
            column=column,
            value=str(value),
            type=str(result_type),
        )
