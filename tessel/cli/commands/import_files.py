"""``tessel import``: files into a symbol."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from tessel.cli.arguments import Form, StoreUri, settings_of
from tessel.cli.output import OutputFormat, make_output
from tessel.cli.query_options import Options, options_of, takes
from tessel.errors import (
    IndexColumnError,
    InvalidInputError,
    SchemaMismatchError,
    SymbolNotFoundError,
    TesselError,
    UnsortedIndexError,
)

_OPTIONS: Options = {
    "index": (str, "COLUMN", "The time index."),
    "append": (bool, None, "Add the rows at the end of the symbol.", False),
    "evolve": (
        list,
        "WAY",
        "How --append lets columns grow: add (new ones), widen, flexible. Repeatable.",
    ),
    "branch": (str, "NAME", "The branch to write.", "main"),
    "sort": (bool, None, "Sort the rows of a commit by the index first (stable).", False),
    "one_commit": (bool, None, "One commit of all files, not one of each.", False),
    "resume": (bool, None, "Go on behind the last file that the same command wrote.", False),
    "format": (
        *(str, "KIND", "csv, jsonl, parquet or arrow."),
        *(None, "by the ending; csv for standard input"),
    ),
    "time_format": (
        list,
        "FORMAT",
        "A form of times in text, such as %d/%m/%Y; or epoch, epoch-ms, epoch-us, epoch-ns for the "
        "index, COLUMN=epoch-ms for another column. Repeatable.",
    ),
    "type": (list, "COLUMN=TYPE", "The type of a column, such as float64."),
    "missing": (list, "TEXT", "CSV text that means missing."),
    "encoding": (str, "NAME", "The encoding of CSV text.", "utf-8"),
    "delimiter": (
        *(str, "CHARACTER", "What lies between the values of CSV, such as ';' or tab."),
        *(None, "by the header; a comma"),
    ),
    "decimal": (str, "CHARACTER", "What lies before decimals in CSV.", "."),
    "thousands": (str, "CHARACTER", "What lies between thousands in CSV."),
    "skip_lines": (
        *(int, "COUNT", "Lines before the header of CSV, or before the first row, to leave out."),
        *(None, "lines of comment: # and a space"),
    ),
    "columns": (str, "NAMES", "The columns, a,b,c, of CSV without a header line."),
    "no_header": (bool, None, "The same, with names f0, f1, ….", False),
    "dry_run": (bool, None, "Check everything and write nothing.", False),
}


@takes("asked", options_of(_OPTIONS), SimpleNamespace)
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="CSV, JSON lines, Parquet or Arrow files of one table, in order; - is standard "
            "input. Text may be compressed (.csv.gz).",
            show_default=False,
        ),
    ],
    store: StoreUri,
    symbol: Annotated[
        str, typer.Option("--symbol", help="The symbol to write.", show_default=False)
    ],
    asked: Any,
    output: Form = OutputFormat.TABLE,
) -> None:
    """Write files as a new version of a symbol, or add them to it: a commit for each file.

    Types of text are found; where a value further down does not fit, the file is read once more.
    """
    import tessel as ts
    from tessel.expression.types import parse_type
    from tessel.progress import operation
    from tessel.store.file_kinds import FileOptions
    from tessel.store.files import Files

    if asked.evolve and (asked.sort or not asked.append):
        raise InvalidInputError(
            "--evolve is of rows that are added at the end, as they come",
            hint="leave --sort out" if asked.append else "give --append as well",
        )
    formats, epochs = _time_formats(asked.time_format or (), asked.index)
    names = () if asked.no_header else None  # of columns without a header line
    with _on_disk(files) as paths:
        options = FileOptions(
            kind=asked.format or ("csv" if paths != files else None),
            missing=("", *asked.missing) if asked.missing else FileOptions.missing,
            time_formats=formats,
            epochs=epochs,
            types={name: parse_type(text) for name, text in settings_of(asked.type).items()},
            encoding=asked.encoding,
            delimiter="\t" if asked.delimiter in ("tab", "\\t") else asked.delimiter,
            decimal=asked.decimal,
            thousands=asked.thousands,
            skip_lines=asked.skip_lines,
            columns=tuple(asked.columns.split(",")) if asked.columns else names,
        )
        # A dry run is the same write into memory: every check of the real one, nothing on disk.
        target = (
            _memory(store, asked.branch, symbol if asked.append else None)
            if asked.dry_run
            else ts.open(store, branch=asked.branch)
        )
        stored = target.schema(symbol) if asked.append and symbol in target.symbols() else None
        rows = Files(paths, options, None if stored is None else stored.arrow)
        if stored is not None and asked.index not in (None, stored.index):
            raise InvalidInputError(
                f"--index {asked.index}: the index of symbol {symbol!r} is {stored.index}",
                hint="leave --index out, or write the symbol anew without --append",
            )
        asked.index = asked.index if stored is None else stored.index
        parts = [None] if asked.one_commit else list(range(len(rows)))
        run = run_name(symbol, paths)
        done = _done(target, symbol, run, len(parts)) if asked.resume else 0
        taken = 0
        with operation("import", symbol):
            for at in parts[done:]:
                with _telling_where(rows, at, asked):
                    message = f"{run} {(at or 0) + 1}/{len(parts)}"
                    taken += _commit(target, symbol, rows, at, message, asked)
        make_output(output).facts(
            {
                "symbol": symbol,
                "rows": taken,
                "columns": len(rows.schema),
                "index": asked.index,
                "version": "none: dry run" if asked.dry_run else target.version,
                **({"guessed": "; ".join(rows.notes)} if rows.notes else {}),
            }
        )


def _commit(store: Any, symbol: str, files: Any, at: int | None, message: str, asked: Any) -> int:
    """Write one file, or all of them (``at`` is None), in one commit; return its rows."""
    from tessel.store.operations.taking import discard_staged

    index, append = asked.index, asked.append or bool(at)

    def take(batches: Iterator[Any]) -> int:
        rows = 0

        def counted() -> Iterator[Any]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        staged, is_sure = [], True
        try:
            with store.transaction(message) as transaction:
                if asked.sort and index is not None:
                    # Sorted pieces are merged by time as the commit is written: no more than a
                    # piece is held, whatever the length of the file.
                    for number, piece in enumerate(_pieces(counted())):
                        task = f"piece {number + 1}"
                        staged.append(
                            store.stage(symbol, piece, task_id=task, index=index, sort=True)
                        )
                    mode = "append" if append else "write"
                    transaction.finalize(symbol, staged, mode=mode, sort=True)
                elif append:
                    transaction.append(symbol, counted(), evolve=asked.evolve)
                else:
                    transaction.write(symbol, counted(), index=index, sort=asked.sort)
                is_sure = False  # of a commit that fails nobody knows whether it lands
            is_sure = True
        finally:
            discard_staged(store, symbol, staged if is_sure else ())
        return rows

    taken: int = files.take(take, at)
    return taken


def _pieces(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the rows as tables that may be held one at a time; at least one table."""
    import pyarrow as pa

    from tessel.options import current

    most = current().live_bytes // 4
    held = [next(batches)]
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > most:
            yield pa.Table.from_batches(held)
            held, size = held[:1], 0
    yield pa.Table.from_batches(held)


def _time_formats(
    texts: Sequence[str], index: str | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the forms of text among time formats, and the columns that count since 1970."""
    from tessel.store.file_kinds import EPOCHS

    forms: list[str] = []
    epochs: dict[str, str] = {}
    for text in texts:
        column, _, form = text.rpartition("=")
        if form not in EPOCHS:
            if "%" not in text:
                raise InvalidInputError(
                    f"{text!r} is no time format",
                    hint=f"a form such as %d/%m/%Y, or {', '.join(EPOCHS)}",
                )
            forms.append(text)
        elif column or index:
            epochs[column or index or ""] = form
        else:
            raise InvalidInputError(
                f"--time-format {form} is of which column?",
                hint=f"--time-format COLUMN={form}, or --index COLUMN",
            )
    return tuple(forms), epochs


@contextmanager
def _telling_where(rows: Any, at: int | None, asked: Any) -> Iterator[None]:
    """Tell where values lie that cannot be taken, and which options would help."""
    try:
        yield
    except UnsortedIndexError as error:
        row = error.attributes.get("row")
        error.detail = rows.place(row, at)
        # Rows that go back within the file can be sorted, those before the symbol's cannot.
        if asked.append and row and not asked.sort:
            written = "; with --resume, files that are written are left out" if at else ""
            error.hint = f"--sort sorts the rows first{written}"
        elif asked.append:
            error.hint = (
                "rows before the last time of the symbol cannot be appended: import all its files "
                "anew with --sort --one-commit, without --append; in Python, update() replaces "
                "the rows of a range of times"
            )
        elif len(rows) > 1:
            error.hint = "--sort --one-commit sorts the rows of all files by time"
        raise
    except (SchemaMismatchError, IndexColumnError) as error:
        is_missing = asked.index is not None and "row" in error.attributes
        told = (rows.missing if is_missing else rows.misfits)(asked.index)
        error.detail = "\n".join(filter(None, [error.detail, told])) or None
        raise


@contextmanager
def _on_disk(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Return the files with standard input as one on disk: it may have to be read twice."""
    if Path("-") not in files:
        yield list(files)
        return
    if len(files) > 1:
        raise InvalidInputError("standard input is read alone, without files beside it")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard input")
        with copy.open("wb") as written:
            shutil.copyfileobj(sys.stdin.buffer, written)
        try:
            yield [copy]
        except TesselError as error:
            error.message = error.message.replace(repr(str(copy)), "standard input")
            error.detail = error.detail and error.detail.replace(repr(str(copy)), "standard input")
            raise


def _memory(uri: str, branch: str, symbol: str | None) -> Any:
    """Return a store in memory; with a symbol, it has the last row of that, to append to."""
    import tessel as ts

    memory = ts.open("memory://")
    if symbol is not None:
        real = ts.open(uri, create=False, read_only=True, branch=branch)
        last = real.read(symbol, query=ts.QueryBuilder().tail(1)).to_arrow()
        memory.write(symbol, last, index=real.schema(symbol).index)
    return memory


def run_name(symbol: str, paths: Sequence[Path]) -> str:
    """Return what the commits of an import are called: the same for the same files, unchanged."""
    known = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return f"import {symbol} {zlib.crc32(repr(known).encode()):08x}"


def _done(store: Any, symbol: str, run: str, parts: int) -> int:
    """Return how many parts of an import the newest versions of a symbol hold."""
    try:
        newest = store.log(symbol, limit=1)[0].message
    except SymbolNotFoundError:
        return 0
    name, _, count = newest.rpartition(" ")
    done, _, of = count.partition("/")
    return int(done) if name == run and of == str(parts) and done.isdecimal() else 0
