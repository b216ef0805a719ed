"""The appender: many small calls become few commits.

A commit costs a handful of durable writes whatever its size, so one a row is slow. The appender
gathers rows and commits them together: when there are enough, when the oldest has waited long
enough, when it is told to, and at its end.

Rows are **durable once** :meth:`Appender.flush` **has returned**, or the block has ended without
an error; before that they live in this process only. What the appender has taken leaves it in two
ways: into a commit, or back to the caller through :meth:`Appender.take_back`. A commit that fails
keeps its rows waiting, and the next call tries again first; a commit of which nobody knows whether
it landed is looked up before anything else is done.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, concat_tables, empty_table
from tessel.closing import Closing
from tessel.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    SchemaMismatchError,
)
from tessel.errors.arguments import checks_arguments
from tessel.store.history.symbol import SymbolState
from tessel.store.index_column import checked_order, index_ends
from tessel.store.operations.incoming import Evolve, aligned, rows_as_table, take
from tessel.store.operations.working import Working

_CONFLICTS_IN_A_ROW = 16
_HINT = "rows of an appender come in the order of time: sort them, or use update()"


@checks_arguments
class Appender(Closing):
    """Gathers rows for one symbol; made by ``Repository.appender``, safe to use from threads.

    Rows of several threads go in the order in which their calls came.

    Parameters
    ----------
    symbol
        Its name.
    state
        Returns the symbol as it is.
    commit
        Appends rows to it and returns the new version.
    resolve
        Returns the version that a commit became; None where it did not land.
    flush_rows, flush_interval_ms, evolve
        See ``Repository.appender``.
    """

    def __init__(
        self,
        symbol: str,
        *,
        state: Callable[[], SymbolState],
        commit: Callable[[pa.Table], int],
        resolve: Callable[[str], int | None],
        flush_rows: int,
        flush_interval_ms: int | None,
        evolve: Evolve = None,
    ) -> None:
        self._flush_rows = _count("flush_rows", flush_rows)
        interval = flush_interval_ms
        self._interval = None if interval is None else _count("flush_interval_ms", interval) / 1000
        self._symbol = symbol
        self._state, self._append, self._resolve = state, commit, resolve
        self._evolve = evolve if evolve is None or isinstance(evolve, str) else tuple(evolve)
        self._last: int | None = None
        self._begin_with(state())
        self._process = os.getpid()
        # Held while rows are added or counted, and while rows are committed; in this order:
        # whoever wants both takes that of the commit first.
        self._committing = threading.RLock()
        self._changed = threading.Condition()
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._oldest = 0.0
        self._failure: BaseException | None = None
        self._doubt: tuple[str, int] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        what = "closed" if self._closed else f"{self._rows} rows waiting"
        return f"<Appender of {self._symbol!r}: {what}>"

    def __reduce__(self) -> Any:
        raise TypeError("an appender stays in its process")

    @property
    def waiting_rows(self) -> int:
        """How many rows were taken and are in no commit yet."""
        return self._rows

    # --- taking rows ------------------------------------------------------------------------------

    def append(self, data: Any) -> None:
        """Take the rows of a table; those before them that failed to be committed go first.

        Parameters
        ----------
        data
            A table of any kind that ``append`` of the store takes.

        Raises
        ------
        InvalidInputError
            In one of its kinds, for rows that cannot be taken. None of this call were.
        TesselError
            What keeps rows of earlier calls from being committed: these wait on, and none of this
            call were taken.
        """
        self._check_open()
        if self._failure is not None or self._doubt is not None:
            self.flush()  # what failed before; raises where it still does
        with self._changed:
            self._check_open()
            incoming = take(self._working, data, self._evolve)
            if incoming.retyped:
                name = incoming.retyped[0]
                raise SchemaMismatchError(
                    f"column {name!r} would be stored anew as "
                    f"{incoming.state.schema.type_of(name)}, which an appender does not do",
                    hint="append() does it, for instance of no rows with these types",
                    column=name,
                )
            # Copied: what the caller gave may be memory that is written to before the commit.
            table = incoming.table()
            table = table.take(arrow_array(np.arange(table.num_rows)))
            index = incoming.state.schema.index
            if index is not None and table.num_rows:
                (table,) = checked_order([table], index, after=self._last, hint=_HINT)
                _, self._last = index_ends(table, index)
            incoming.apply(self._working)
            if not table.num_rows:
                return
            if not self._waiting:
                self._oldest = time.monotonic()
            self._waiting.append(table)
            self._rows += table.num_rows
            full = self._rows >= self._flush_rows
            self._begin_watching()
            self._changed.notify_all()
        if full:
            self._flush_quietly()

    def append_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take rows given as dictionaries; a column that one does not name is missing in it.

        Raises
        ------
        ColumnNotFoundError
            For a name that no column has.
        InvalidInputError
            For values that a column cannot hold; and as for :meth:`append`.
        """
        self.append(rows_as_table(rows, self._working.state.schema, self._evolve))

    # --- committing -------------------------------------------------------------------------------

    def flush(self) -> int | None:
        """Commit all rows that wait; once it has returned they are durable.

        Returns
        -------
        int or None
            The version; None where nothing waited.

        Raises
        ------
        TesselError
            What keeps the rows from being committed; they wait on.
        """
        self._check_process()
        with self._committing:
            self._settle_doubt()
            version = self._commit()
            self._failure = None
            return version

    def take_back(self) -> pa.Table:
        """Return the rows that wait, and forget them: the way out where they can never land.

        Raises
        ------
        TesselError
            While it is not known whether a commit with some of them landed.
        """
        self._check_process()
        with self._committing:
            self._settle_doubt()
            with self._changed:
                schema = self._working.state.schema.arrow
                table = concat_tables(
                    [empty_table(schema), *(aligned(each, schema) for each in self._waiting)]
                )
                self._dropped(len(self._waiting))
                self._failure = None
                self._begin_with(self._state())
                return table

    def close(self) -> None:
        """Commit what waits, and take no more; what fails can be tried again.

        Rows that were taken are committed also where the block raised.
        """
        if self._closed:
            return
        try:
            self.flush()
        except BaseException:
            self._stop_watching()
            raise
        self._closed = True
        self._stop_watching()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __del__(self) -> None:
        rows = getattr(self, "_rows", 0)
        if rows and not self._closed and self._process == os.getpid():
            warnings.warn(
                f"{rows} rows for {self._symbol!r} were taken and never committed: "
                "close the appender",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    # --- inside -----------------------------------------------------------------------------------

    def _begin_with(self, state: SymbolState) -> None:
        self._working = Working.of(self._symbol, state)
        cut = bool(state.manifests) and state.manifests[-1].cut_back
        self._last = None if cut else state.last_time

    def _flush_quietly(self) -> None:
        """Flush; what fails is told by the next call, since this one's rows were taken."""
        try:
            self.flush()
        except Exception as error:
            self._failure = error

    def _commit(self) -> int | None:
        with self._changed:
            tables = list(self._waiting)
            schema = self._working.state.schema.arrow
        if not tables:
            return None
        joined = concat_tables([aligned(each, schema) for each in tables])
        for remaining in reversed(range(_CONFLICTS_IN_A_ROW)):
            try:
                version = self._append(joined)
            except CommitConflictError:
                if not remaining:
                    raise
                continue
            except CommitUnknownError as error:
                self._doubt = str(error.attributes.get("commit", "")), len(tables)
                raise
            break
        with self._changed:
            self._dropped(len(tables))
        return version

    def _settle_doubt(self) -> None:
        """Find out whether the last commit landed, where that was not known."""
        if self._doubt is None:
            return
        commit, tables = self._doubt
        landed = self._resolve(commit)
        self._doubt = None
        if landed is not None:
            with self._changed:
                self._dropped(tables)

    def _dropped(self, tables: int) -> None:
        gone = self._waiting[:tables]
        self._waiting = self._waiting[tables:]
        self._rows -= sum(each.num_rows for each in gone)
        self._oldest = time.monotonic()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise InvalidInputError(
                "an appender stays in the process that made it",
                hint="make one in each process: store.appender(symbol)",
            )

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise InvalidInputError(
                "the appender is closed and takes no more rows",
                hint="make another one: store.appender(symbol)",
            )

    # --- the clock --------------------------------------------------------------------------------

    def _begin_watching(self) -> None:
        if self._interval is None or self._thread is not None:
            return
        self._thread = threading.Thread(
            target=self._watch, name=f"tessel-appender-{self._symbol}", daemon=True
        )
        self._thread.start()

    def _watch(self) -> None:
        assert self._interval is not None
        me = threading.current_thread()
        while True:
            with self._changed:
                while self._thread is me and not self._waiting:
                    self._changed.wait()
                if self._thread is not me:
                    return
                left = self._oldest + self._interval - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
            self._flush_quietly()
            if self._failure is not None:
                with self._changed:
                    self._oldest = time.monotonic()

    def _stop_watching(self) -> None:
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(
            f"{name}={value!r} is no positive whole number", hint=f"for instance {name}=1000"
        )
    return value
