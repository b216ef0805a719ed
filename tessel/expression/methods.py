"""The fluent side of expressions: Python's operators and the named methods.

Only words here: each method makes one operator through the registry, or two that say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tessel.errors import TruthValueError
from tessel.errors.arguments import checks_arguments, names_ours, refuses
from tessel.expression.registry import make

if TYPE_CHECKING:
    import pyarrow as pa

    from tessel.expression.named import ComputedColumn
    from tessel.expression.node import Expression

_ROWS = "collect() the query first; of text, slice(0, 3) is a part and length() its letters"


_Infix = Callable[[Any, object], "Expression"]


def _infix(name: str) -> tuple[_Infix, _Infix]:
    """Return the methods of an operator with an expression to its left, and to its right."""

    def left(self: Any, other: object) -> Expression:
        return make(name, self, other)

    def right(self: Any, other: object) -> Expression:
        return make(name, other, self)

    return left, right


@checks_arguments
class ExpressionMethods:
    """Operators and methods of `Expression`; plain values among the arguments become literals."""

    def __dir__(self) -> list[str]:
        """Return the names for people, without those that say how an operator is made."""
        return [*dir(ExpressionMethods), "columns", "equals", "from_json", "result_type", "to_json"]

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs
        __getattr__ = names_ours("expression")
        __len__ = __getitem__ = refuses("an expression has no rows", _ROWS)

    __add__, __radd__ = _infix("add")
    __sub__, __rsub__ = _infix("subtract")
    __mul__, __rmul__ = _infix("multiply")
    __truediv__, __rtruediv__ = _infix("divide")
    __floordiv__, __rfloordiv__ = _infix("floor_divide")
    __mod__, __rmod__ = _infix("modulo")
    __pow__, __rpow__ = _infix("power")
    __and__, __rand__ = _infix("and")
    __or__, __ror__ = _infix("or")
    __xor__, __rxor__ = _infix("xor")
    __eq__, __ne__ = _infix("equal")[0], _infix("not_equal")[0]  # type: ignore[assignment]
    __lt__, __gt__ = _infix("less")[0], _infix("greater")[0]
    __le__, __ge__ = _infix("less_equal")[0], _infix("greater_equal")[0]

    def __neg__(self) -> Expression:
        return make("negative", self)

    def __pos__(self) -> ExpressionMethods:
        return self

    def __abs__(self) -> Expression:
        return make("abs", self)

    def __round__(self, digits: int | None = None) -> Expression:
        return make("round", self, digits or 0)

    def __invert__(self) -> Expression:
        return make("not", self)

    def __bool__(self) -> NoReturn:
        raise TruthValueError(
            f"the expression {self!r} has a value for every row, so it is neither true nor false",
            hint="use & | ~ instead of and, or, not, with brackets around each condition, as in "
            "(a < b) & (b < c);\nx.is_in([...]) instead of x in [...]; "
            "when(c).then(a).otherwise(b) instead of if; a.equals(b) to compare two expressions",
        )

    def __iter__(self) -> NoReturn:
        raise TruthValueError(f"the expression {self!r} cannot be iterated over", hint=_ROWS)

    def __contains__(self, item: object) -> NoReturn:
        raise TruthValueError(
            f"'in' cannot look into the expression {self!r}",
            hint="use x.is_in([...]), or x.contains('text') for a part of a text",
        )

    def alias(self, name: str) -> ComputedColumn:
        """Return the expression with a name for the column that a verb makes of it.

        It stands last: ``with_columns((col("price") * 2).alias("twice"))``, as in ``agg`` and
        ``groupby``.

        Examples
        --------
        >>> trades.with_columns((ts.col("qty") * 2).alias("twice")).collect()["twice"].to_pylist()
        [2, 4, 6, 8]
        """
        from tessel.expression.named import ComputedColumn

        return ComputedColumn(name, self)  # type: ignore[arg-type]

    # --- membership and missing values ------------------------------------------------------------

    def is_in(self, values: Iterable[object]) -> Expression:
        """Whether the value is one of ``values``.

        With a null among ``values`` an absent value is missing instead of false (Kleene). Nothing
        is in the empty list: false, for missing values too.

        Examples
        --------
        >>> trades.apply("x", ts.col("price").is_in([10, 21])).collect()["x"].to_pylist()
        [True, False, None, True]
        """
        return make("is_in", self, values)

    def not_in(self, values: Iterable[object]) -> Expression:
        """Whether the value is none of ``values``: ``~x.is_in(values)``.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").not_in(["AAPL"])).collect()["x"].to_pylist()
        [False, True, False, True]
        """
        return make("not", self.is_in(values))

    def between(self, low: object, high: object) -> Expression:
        """Whether ``low <= value <= high``, both ends included.

        Examples
        --------
        >>> trades.apply("x", ts.col("qty").between(2, 3)).collect()["x"].to_pylist()
        [False, True, True, False]
        """
        return make("and", make("greater_equal", self, low), make("less_equal", self, high))

    def is_missing(self) -> Expression:
        """Whether the value is null or a float NaN; never missing itself.

        Examples
        --------
        >>> trades.apply("x", ts.col("price").is_missing()).collect()["x"].to_pylist()
        [False, False, True, False]
        """
        return make("is_missing", self)

    def not_missing(self) -> Expression:
        """Whether there is a value: ``~x.is_missing()``.

        Examples
        --------
        >>> trades.apply("x", ts.col("price").not_missing()).collect()["x"].to_pylist()
        [True, True, False, True]
        """
        return make("not", self.is_missing())

    def fill_missing(self, value: object) -> Expression:
        """Return the value where there is one, otherwise ``value``, plain or an expression.

        Examples
        --------
        >>> trades.apply("x", ts.col("price").fill_missing(0)).collect()["x"].to_pylist()
        [10.0, 20.0, 0.0, 21.0]
        """
        return make("coalesce", self, value)

    # --- types ------------------------------------------------------------------------------------

    def cast(self, type_: str | pa.DataType | type) -> Expression:
        """Return the value as another type, such as ``"float64"`` or ``pa.int32()``.

        A value that the type cannot hold raises when it is reached; nothing is cut or wrapped.

        Examples
        --------
        >>> trades.apply("x", ts.col("qty").cast("float64")).collect()["x"].to_pylist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return make("cast", self, type_)

    def field(self, name: str) -> Expression:
        """Return a field of a struct.

        Examples
        --------
        >>> store.write("places", {"at": [{"lat": 1.5, "lon": 2.5}, {"lat": 3.5, "lon": 4.5}]})
        3
        >>> store.scan("places").apply("x", ts.col("at").field("lat")).collect()["x"].to_pylist()
        [1.5, 3.5]
        """
        return make("field", self, name)

    # --- text -------------------------------------------------------------------------------------

    def matches(self, regex: str) -> Expression:
        """Whether a regular expression (RE2 syntax) is found anywhere in the text.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").matches("^A+")).collect()["x"].to_pylist()
        [True, False, True, False]
        """
        return make("matches", self, regex)

    def like(self, pattern: str) -> Expression:
        """Whether the whole text fits an SQL pattern: ``%`` any text, ``_`` one character.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").like("M%")).collect()["x"].to_pylist()
        [False, True, False, True]
        """
        return make("like", self, pattern)

    def starts_with(self, prefix: str) -> Expression:
        """Whether the text starts with ``prefix``.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").starts_with("AA")).collect()["x"].to_pylist()
        [True, False, True, False]
        """
        return make("starts_with", self, prefix)

    def ends_with(self, suffix: str) -> Expression:
        """Whether the text ends with ``suffix``.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").ends_with("FT")).collect()["x"].to_pylist()
        [False, True, False, True]
        """
        return make("ends_with", self, suffix)

    def contains(self, part: str) -> Expression:
        """Whether ``part`` stands anywhere in the text, letter by letter.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").contains("AP")).collect()["x"].to_pylist()
        [True, False, True, False]
        """
        return make("contains", self, part)

    def lower(self) -> Expression:
        """Return the text in lower case (Unicode, one character at a time).

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").lower()).collect()["x"].to_pylist()
        ['aapl', 'msft', 'aapl', 'msft']
        """
        return make("lower", self)

    def upper(self) -> Expression:
        """Return the text in upper case (Unicode, one character at a time).

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").upper()).collect()["x"].to_pylist()
        ['AAPL', 'MSFT', 'AAPL', 'MSFT']
        """
        return make("upper", self)

    def length(self) -> Expression:
        """Return the number of characters (code points) as int32; bytes for binary.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").length()).collect()["x"].to_pylist()
        [4, 4, 4, 4]
        """
        return make("length", self)

    def strip(self) -> Expression:
        """Return the text without white space at its ends.

        Examples
        --------
        >>> trades.apply("x", ts.lit("  AAPL ").strip()).collect()["x"].to_pylist()
        ['AAPL', 'AAPL', 'AAPL', 'AAPL']
        """
        return make("strip", self)

    def replace(self, old: str, new: str) -> Expression:
        """Return the text with every ``old`` replaced by ``new``, letter by letter.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").replace("AA", "a")).collect()["x"].to_pylist()
        ['aPL', 'MSFT', 'aPL', 'MSFT']
        """
        return make("replace", self, old, new)

    def slice(self, start: int, stop: int | None = None) -> Expression:
        """Return the characters from ``start`` up to ``stop``, both not negative.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").slice(0, 2)).collect()["x"].to_pylist()
        ['AA', 'MS', 'AA', 'MS']
        """
        return make("slice", self, start, stop)

    def concat(self, *others: object) -> Expression:
        """Return this text and the others, one after the other; missing where one is missing.

        Examples
        --------
        >>> trades.apply("x", ts.col("symbol").concat("!")).collect()["x"].to_pylist()
        ['AAPL!', 'MSFT!', 'AAPL!', 'MSFT!']
        """
        return make("concat", self, *others)

    # --- numbers ----------------------------------------------------------------------------------

    def clip(self, low: object = None, high: object = None) -> Expression:
        """Return the value, not below ``low`` and not above ``high``; None leaves a side open.

        Missing stays missing.

        Examples
        --------
        >>> trades.apply("x", ts.col("price").clip(12, 20)).collect()["x"].to_pylist()
        [12.0, 20.0, None, 20.0]
        """
        clipped: Expression = make("clip_low", self, low) if low is not None else self  # type: ignore[assignment]
        return make("clip_high", clipped, high) if high is not None else clipped

    def abs(self) -> Expression:
        """Return the distance from zero: ``abs(x)``.

        Examples
        --------
        >>> trades.apply("x", (ts.col("qty") - 3).abs()).collect()["x"].to_pylist()
        [2, 1, 0, 1]
        """
        return make("abs", self)

    def round(self, digits: int = 0) -> Expression:
        """Return the nearest number with so many digits after the point: ``round(x, digits)``.

        Examples
        --------
        >>> trades.apply("x", (ts.col("price") / 3).round(1)).collect()["x"].to_pylist()
        [3.3, 6.7, None, 7.0]
        """
        return make("round", self, digits)

    def ceil(self) -> Expression:
        """Return the least whole number that is not below the value.

        Examples
        --------
        >>> trades.apply("x", (ts.col("price") / 3).ceil()).collect()["x"].to_pylist()
        [4.0, 7.0, None, 7.0]
        """
        return make("ceil", self)

    def log(self) -> Expression:
        """Return the natural logarithm as float64: -inf for 0, NaN (missing) below.

        Examples
        --------
        >>> trades.apply("x", round(ts.col("qty").log(), 2)).collect()["x"].to_pylist()
        [0.0, 0.69, 1.1, 1.39]
        """
        return make("log", self)

    def exp(self) -> Expression:
        """Return e to the power of the value as float64.

        Examples
        --------
        >>> trades.apply("x", round(ts.col("qty").exp(), 2)).collect()["x"].to_pylist()
        [2.72, 7.39, 20.09, 54.6]
        """
        return make("exp", self)

    def sqrt(self) -> Expression:
        """Return the square root as float64; NaN (missing) below 0.

        Examples
        --------
        >>> trades.apply("x", (ts.col("qty") * ts.col("qty")).sqrt()).collect()["x"].to_pylist()
        [1.0, 2.0, 3.0, 4.0]
        """
        return make("sqrt", self)

    # --- time -------------------------------------------------------------------------------------

    def year(self) -> Expression:
        """Return the year, on the clock of the column's zone, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").year()).collect()["x"].to_pylist()
        [2024, 2024, 2024, 2024]
        """
        return make("year", self)

    def month(self) -> Expression:
        """Return the month, 1 to 12, on the clock of the column's zone, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").month()).collect()["x"].to_pylist()
        [1, 1, 1, 1]
        """
        return make("month", self)

    def day(self) -> Expression:
        """Return the day of the month on the clock of the column's zone, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").day()).collect()["x"].to_pylist()
        [1, 1, 1, 1]
        """
        return make("day", self)

    def hour(self) -> Expression:
        """Return the hour, 0 to 23, on the clock of the column's zone, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").hour()).collect()["x"].to_pylist()
        [9, 9, 10, 10]
        """
        return make("hour", self)

    def minute(self) -> Expression:
        """Return the minute on the clock of the column's zone, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").minute()).collect()["x"].to_pylist()
        [0, 30, 0, 30]
        """
        return make("minute", self)

    def second(self) -> Expression:
        """Return the whole second as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").second()).collect()["x"].to_pylist()
        [0, 0, 0, 0]
        """
        return make("second", self)

    def weekday(self) -> Expression:
        """Return the day of the week, Monday 0 to Sunday 6, as int32.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").weekday()).collect()["x"].to_pylist()
        [0, 0, 0, 0]
        """
        return make("weekday", self)

    def date(self) -> Expression:
        """Return the date on the clock of the column's zone.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").date()).collect()["x"][0].as_py()
        datetime.date(2024, 1, 1)
        """
        return make("date", self)

    def floor(self, rule: str | None = None) -> Expression:
        """Return the start of the time bucket, such as ``"15min"`` or ``"1d"``.

        Without a rule, return the greatest whole number that is not above the value.
        Durations in ``h min s ms us ns`` count from the epoch (UTC for aware timestamps); days
        (``d``) are calendar days of the column's zone and begin at their first instant.

        Examples
        --------
        >>> trades.apply("x", ts.col("time").floor("1h")).collect()["x"][1].as_py()
        datetime.datetime(2024, 1, 1, 9, 0)
        """
        return make("floor_number", self) if rule is None else make("floor", self, rule)

    # --- aggregates, for agg(...) -----------------------------------------------------------------

    def aggregate(self, how: str, *arguments: object) -> Expression:
        """Return an aggregate of the values by its name, with further columns and parameters.

        Aggregates stand in ``agg``: ``agg(notional=(col("price") * col("qty")).sum())``.

        Examples
        --------
        >>> vwap = ts.col("price").aggregate("vwap", ts.col("qty"))
        >>> trades.agg(vwap=vwap).collect()["vwap"].to_pylist()
        [19.142857142857142]
        """
        return make("aggregate", how, self, *arguments)

    def sum(self) -> Expression:
        """Return the exact sum of the values of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("qty").sum()).collect()["x"].to_pylist()
        [10]
        """
        return self.aggregate("sum")

    def mean(self) -> Expression:
        """Return the mean of the values of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").mean()).collect()["x"].to_pylist()
        [17.0]
        """
        return self.aggregate("mean")

    def median(self) -> Expression:
        """Return the median of the values of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").median()).collect()["x"].to_pylist()
        [20.0]
        """
        return self.aggregate("median")

    def min(self) -> Expression:
        """Return the least value of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").min()).collect()["x"].to_pylist()
        [10.0]
        """
        return self.aggregate("min")

    def max(self) -> Expression:
        """Return the greatest value of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").max()).collect()["x"].to_pylist()
        [21.0]
        """
        return self.aggregate("max")

    def first(self) -> Expression:
        """Return the first value of a group, in row order, that is not missing.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").first()).collect()["x"].to_pylist()
        [10.0]
        """
        return self.aggregate("first")

    def last(self) -> Expression:
        """Return the last value of a group, in row order, that is not missing.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").last()).collect()["x"].to_pylist()
        [21.0]
        """
        return self.aggregate("last")

    def count(self) -> Expression:
        """Return how many values of a group are not missing.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").count()).collect()["x"].to_pylist()
        [3]
        """
        return self.aggregate("count")

    def nunique(self) -> Expression:
        """Return how many different values a group has.

        Examples
        --------
        >>> trades.agg(x=ts.col("symbol").nunique()).collect()["x"].to_pylist()
        [2]
        """
        return self.aggregate("nunique")

    def any(self) -> Expression:
        """Return whether a condition is true in one row of a group.

        Examples
        --------
        >>> trades.agg(x=(ts.col("price") > 20).any()).collect()["x"].to_pylist()
        [True]
        """
        return self.aggregate("any")

    def all(self) -> Expression:
        """Return whether a condition is false in no row of a group.

        Examples
        --------
        >>> trades.agg(x=(ts.col("qty") > 0).all()).collect()["x"].to_pylist()
        [True]
        """
        return self.aggregate("all")

    def var(self, ddof: int = 1) -> Expression:
        """Return the variance of the values of a group; ``ddof=0`` of a whole population.

        Examples
        --------
        >>> trades.agg(x=ts.col("qty").var()).collect()["x"].to_pylist()
        [1.6666666666666667]
        """
        return self.aggregate("var", ddof)

    def std(self, ddof: int = 1) -> Expression:
        """Return the standard deviation of the values of a group.

        Examples
        --------
        >>> trades.agg(x=ts.col("qty").std(ddof=0)).collect()["x"].to_pylist()
        [1.118033988749895]
        """
        return self.aggregate("std", ddof)

    def quantile(self, q: float, interpolation: str = "linear") -> Expression:
        """Return a quantile of the values of a group, ``q`` from 0 to 1.

        Examples
        --------
        >>> trades.agg(x=ts.col("qty").quantile(0.25)).collect()["x"].to_pylist()
        [1.75]
        """
        return self.aggregate("quantile", q, interpolation)

    def weighted_mean(self, weight: object) -> Expression:
        """Return the mean of the values of a group, each with the weight in its row.

        Examples
        --------
        >>> trades.agg(x=ts.col("price").weighted_mean(ts.col("qty"))).collect()["x"].to_pylist()
        [19.142857142857142]
        """
        return self.aggregate("weighted_mean", weight)
