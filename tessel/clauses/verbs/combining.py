"""Verbs over several symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from tessel.clauses.combining import SubQuery
from tessel.clauses.verbs.arguments import Query, QueryType, as_pairs
from tessel.errors import PlanError
from tessel.errors.arguments import checks_arguments
from tessel.expression.scalars import elapsed_text, whole_number

if TYPE_CHECKING:
    from tessel.clauses.joining.asof_shape import Direction
    from tessel.clauses.joining.shape import How

OtherSymbol = str | SubQuery | Query
"""A symbol by name, or with clauses of its own first; beside a lazy table one of its store."""
KeysLike = str | Sequence[str | tuple[str, str]] | Mapping[str, str]
"""Key columns: a name, several, or pairs of a left and a right name."""


@checks_arguments
class CombiningVerbs(Query):
    """Bring rows of other symbols in."""

    def concat(
        self: QueryType, *others: OtherSymbol, join: Literal["outer", "inner"] = "outer"
    ) -> QueryType:
        """Add the rows of other symbols, by name or with clauses of their own first.

        A lazy table takes other lazy tables of its store, too.

        Examples
        --------
        >>> q = ts.QueryBuilder().select("symbol").concat("names")
        >>> store.read("trades", query=q).shape
        (6, 2)
        >>> trades.concat(trades.filter("qty > 3")).collect()["qty"].to_pylist()
        [1, 2, 3, 4, 4]
        """
        from tessel.clauses.concat import Concat

        if not others:
            raise PlanError("concat needs another symbol", hint='concat("other")')
        return self.then(Concat(self._queries("concat", others), join))

    def join(
        self: QueryType,
        other: OtherSymbol,
        on: KeysLike | None = None,
        how: How = "inner",
        *,
        left_on: str | Sequence[str] | None = None,
        right_on: str | Sequence[str] | None = None,
        suffix: str = "_right",
    ) -> QueryType:
        """Put rows of another symbol that have the same keys beside those of this query.

        Parameters
        ----------
        other
            The other symbol, by name or with clauses of its own first; beside a lazy table also
            a lazy table of its store.
        on
            The key columns: a name, several, or pairs of a left and a right name, also as a
            mapping.
        how
            ``"inner"``, ``"left"``, ``"right"``, ``"outer"``, ``"semi"`` or ``"anti"``.
        left_on, right_on
            The key columns of each side, instead of ``on``.
        suffix
            Added to the name of a right column that the left has as well.

        Examples
        --------
        >>> q = ts.QueryBuilder().join("names", on="symbol").select("qty", "name")
        >>> list(store.read("trades", query=q.head(2)))
        [{'qty': 1, 'name': 'Apple'}, {'qty': 2, 'name': 'Microsoft'}]
        """
        from tessel.clauses.join import Join

        (query,) = self._queries("join", (other,))
        return self.then(Join(query, as_pairs("join", on, left_on, right_on), how, suffix))

    def join_asof(
        self: QueryType,
        other: OtherSymbol,
        on: str | tuple[str, str] | None = None,
        *,
        by: KeysLike | None = None,
        tolerance: str | int | timedelta | None = None,
        direction: Direction = "backward",
        allow_exact_matches: bool = True,
        suffix: str = "_right",
    ) -> QueryType:
        """Put the row of another symbol that is nearest in time beside each row of this query.

        Parameters
        ----------
        other
            The other symbol, by name or with clauses of its own first; beside a lazy table also
            a lazy table of its store.
        on
            The column of time, or a pair of a left and a right one; by default the time indexes.
        by
            Columns that must be equal too: a name, several, or pairs.
        tolerance
            How far apart they may be: ``"5s"``, a timedelta, or a number in the unit of the index.
        direction
            ``"backward"``, ``"forward"`` or ``"nearest"``.
        allow_exact_matches
            Whether rows of the very same time go together.
        suffix
            Added to the name of a right column that the left has as well.

        Examples
        --------
        >>> q = ts.QueryBuilder().join_asof("trades", by="symbol", allow_exact_matches=False)
        >>> store.read("trades", query=q)["qty_right"].to_pylist()
        [None, None, 1, 2]
        >>> earlier = trades.filter("qty < 3").select("time", "symbol", "qty")
        >>> trades.join_asof(earlier, by="symbol").collect()["qty_right"].to_pylist()
        [1, 2, 1, 2]
        """
        from tessel.clauses.join_asof import JoinAsof

        (query,) = self._queries("join_asof", (other,))
        times = None if on is None else as_pairs("join_asof", _one_pair(on), None, None)[0]
        keys = as_pairs("join_asof", by, None, None)
        apart = whole_number(tolerance)
        apart = elapsed_text(tolerance) if apart is None else apart
        clause = JoinAsof(query, times, keys, apart, direction, allow_exact_matches, suffix)
        return self.then(clause)

    def merge(
        self: QueryType,
        *others: OtherSymbol,
        on: str | None = None,
        join: Literal["outer", "inner"] = "outer",
    ) -> QueryType:
        """Merge the rows of other symbols by time; without others, order the rows by time.

        ``on`` names the column to order by, which becomes the time index; by default the index.
        A lazy table takes other lazy tables of its store, too.

        Examples
        --------
        >>> q = ts.QueryBuilder().merge("trades")
        >>> store.read("trades", query=q)["qty"].to_pylist()
        [1, 1, 2, 2, 3, 3, 4, 4]
        >>> trades.filter("qty < 3").merge(trades.filter("qty == 1")).collect()["qty"].to_pylist()
        [1, 1, 2]
        """
        from tessel.clauses.merge import Merge

        return self.then(Merge(self._queries("merge", others), on, join))


def _one_pair(on: Any) -> list[Any]:
    """Return the columns of time as a list of one: a name, or a pair."""
    return [tuple(on) if isinstance(on, list) else on]
