"""What a file of a table is: its columns, and its rows as a schema that is asked for.

Parquet and Arrow are here, text in :mod:`tessel.store.json_files` and, of CSV,
:mod:`tessel.store.csv_files`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pat

from tessel.cached import cached
from tessel.cancelling import ThreadPool, run_ahead
from tessel.errors import InvalidInputError, SchemaMismatchError
from tessel.lazy import dataclass
from tessel.options import current
from tessel.store.frames import check_column_names

BLOCK_BYTES = 8 << 20
"""So much text is parsed at a time; types are guessed from the first block."""

EPOCHS = {"epoch": "s", "epoch-ms": "ms", "epoch-us": "us", "epoch-ns": "ns"}
"""Time formats of whole numbers: how many of a unit since 1970, in UTC."""


@dataclass(frozen=True)
class FileOptions:
    """How files are read.

    Attributes
    ----------
    kind
        ``"csv"``, ``"jsonl"``, ``"parquet"`` or ``"arrow"``; by default the ending of the name
        says it.
    missing
        The texts of a CSV file that stand for a missing value.
    time_formats
        Forms of times in text, as of ``strptime``, which are tried before those that are known.
    epochs
        By column of whole numbers that count time: one of :data:`EPOCHS`.
    types
        Types of columns by name; the others are found.
    encoding
        Of the text of a CSV file; UTF-16 is known by its first bytes.
    delimiter
        What lies between the values of a CSV file; by default the header says it.
    decimal
        What lies before the decimals of numbers in a CSV file.
    thousands
        What lies between their thousands; by default nothing.
    skip_lines
        Lines at the start of a CSV file that are left out; by default those of comment, which
        begin with ``#`` and a space.
    columns
        Names of the columns of CSV files that have no header; with none, ``f0``, ``f1`` and so on.
    """

    kind: str | None = None
    missing: tuple[str, ...] = ("", "NA", "N/A", "#N/A", "null", "NULL", "NaN", "nan")
    time_formats: tuple[str, ...] = ()
    epochs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    types: Mapping[str, pa.DataType] = dataclasses.field(default_factory=dict)
    encoding: str = "utf-8"
    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    skip_lines: int | None = None
    columns: tuple[str, ...] | None = None


_COMPRESSED = {
    rb"\x1f\x8b": "gzip",
    rb"BZh[1-9]1AY&SY": "bz2",
    rb"\x04\x22\x4d\x18": "lz4",
    rb"\x28\xb5\x2f\xfd": "zstd",
}
"""Forms of compression by the first bytes: standard input has no name, and names may be wrong."""


Part = Callable[[], pa.RecordBatch]
"""Reads some of the rows of a file, on any thread, while others are read."""

_AHEAD = 2  # parts a thread that are read, or wait to be taken


class UnfitError(Exception):
    """A value of a text file does not fit the type that its first block gave the column."""

    def __init__(self, file: File) -> None:
        super().__init__(str(file.path))
        self.file = file

    def refusal(self) -> InvalidInputError:
        """Return the error for a value that no other types of the file would help."""
        cause = self.__cause__
        if isinstance(cause, InvalidInputError):
            return cause
        return unreadable(self.file.path, cause or "a value does not fit its column")


class File:
    """One file: its columns as far as they are known, and its rows as a schema that is asked for.

    Attributes
    ----------
    share
        Returns how much of a file that is open was read, of 1.
    notes
        What was guessed, for people.
    are_sure
        Whether the types were found in all of its rows, so that every value fits them.
    """

    share: Callable[[], float] = staticmethod(lambda: 1.0)
    notes: tuple[str, ...] = ()
    are_sure = True

    def __init__(self, path: Path, options: FileOptions) -> None:
        self.path = path
        self.options = options
        self.types = self.first_types()

    @cached
    def compression(self) -> str | None:
        """How its text is compressed, as Arrow names it."""
        with self.path.open("rb") as file:
            start = file.read(10)
        return next((form for magic, form in _COMPRESSED.items() if re.match(magic, start)), None)

    def misfit(self, name: str, kind: pa.DataType) -> str:
        """Return where the first value lies that is none of a type, if the file can say it."""
        return ""

    def place(self, row: int) -> str:
        """Return where a row lies, counted from 0: its line in text."""
        line = self.line_of(row)
        return f"{str(self.path)!r}, {f'row {row}' if line is None else f'line {line}'}"

    def line_of(self, row: int) -> int | None:
        """Return the number of the line of a row, counted from 0; None where rows are no lines."""
        return None

    def first_types(self) -> dict[str, pa.DataType]:
        """Return names and types of the columns, by what is read first."""
        schema, _ = self.open(None)
        vars(self).pop("share", None)  # which holds the file open
        check_column_names(schema.names)
        return {field.name: field.type for field in schema}

    def settled_types(self) -> dict[str, pa.DataType]:
        """Return types that hold every value."""
        return self.types

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches of a schema, which threads read ahead."""

        def cast(read: Part) -> pa.RecordBatch:
            batch = read()
            columns = [self._cast(batch, field) for field in schema]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        workers = current().workers
        try:
            with ThreadPool(workers, "tessel-read") as pool:
                parts = self.open(schema)[1]
                tasks = (functools.partial(cast, read) for read in parts)
                yield from run_ahead(pool, tasks, _AHEAD * workers)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise unreadable(self.path, error) from error
        finally:
            vars(self).pop("share", None)

    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[Part]]:
        """Return the columns as they lie in the file, and its parts, in their order."""
        raise NotImplementedError

    def text(self) -> pa.NativeFile:
        """Return the bytes of a file of text, which may be compressed."""
        raw = pa.OSFile(str(self.path))
        size = max(1, raw.size())
        self.share = lambda: 1.0 if raw.closed else raw.tell() / size
        form = self.compression
        return raw if form is None else pa.CompressedInputStream(raw, form)

    def _given(self, schema: pa.Schema | None) -> dict[str, pa.DataType]:
        """Return the types that a reader of text is told: of a schema, or those that were given."""
        options = self.options
        told = dict(options.types) if schema is None else {f.name: f.type for f in schema}
        return told | dict.fromkeys(options.epochs, pa.int64())

    def _cast(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        try:
            return batch.column(field.name).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatchError(
                f"column {field.name!r} of {str(self.path)!r} cannot be {field.type}: {error}"
            ) from error


class ParquetFile(File):
    """A file of Parquet, read by row groups."""

    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[Part]]:
        """Return the columns and the rows as they lie in the file."""
        from pyarrow import parquet

        opened = parquet.ParquetFile(self.path)

        read, rows = 0, max(1, opened.metadata.num_rows)
        self.share = lambda: read / rows

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal read
            with closing(opened):
                for batch in opened.iter_batches(batch_size=1 << 17):
                    read += batch.num_rows
                    yield batch

        return opened.schema_arrow.remove_metadata(), there(batches())


class ArrowFile(File):
    """A file or stream of Arrow, or a Feather file of the first version."""

    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[Part]]:
        """Return the columns and the rows as they lie in the file."""
        with pa.OSFile(str(self.path)) as start:
            is_file, is_feather = (magic := start.read(6)) == b"ARROW1", magic[:4] == b"FEA1"
        if is_feather:
            from pyarrow import feather

            table = feather.read_table(self.path)
            return table.schema, there(table.to_batches())
        if not is_file:
            stream = pa.ipc.open_stream(str(self.path))
            return stream.schema.remove_metadata(), there(stream)
        reader = pa.ipc.open_file(pa.memory_map(str(self.path)))
        numbers = range(reader.num_record_batches)
        return reader.schema.remove_metadata(), there(map(reader.get_batch, numbers))


def there(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """Return rows that one reader reads, one batch after the other, as parts."""
    for batch in batches:
        yield lambda batch=batch: batch  # type: ignore[misc]


def unreadable(path: Path, what: object) -> InvalidInputError:
    """Return the error for a file that cannot be read, with what its reader says."""
    is_encoding = isinstance(what, UnicodeError)
    return InvalidInputError(
        f"cannot read {str(path)!r}: {what}",
        hint="name its encoding: tessel import --encoding, such as utf-8, utf-16-le, cp1252"
        if is_encoding
        else "the file may be empty, cut short, in another encoding, or of another kind than its "
        "name says",
        path=str(path),
    )


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows, as ``from_pylist`` does, which would import pandas."""
    none = [pa.nulls(0, kind) for kind in schema.types]
    return pa.RecordBatch.from_arrays(none, schema=schema)


def joined(
    one: pa.DataType, other: pa.DataType, *, within_text: bool = False
) -> pa.DataType | None:
    """Return the narrowest type that holds the values of two, or None.

    Whole numbers beside others become doubles, as in a file that has both; times take the finer
    unit. Within one file of text, what looked like a time in one block and does not in another is
    text, and lists and objects are joined by what they hold.
    """
    if one == other or pat.is_null(other):
        return one
    if pat.is_null(one):
        return other
    if pat.is_dictionary(one) or pat.is_dictionary(other):
        return joined(*(k.value_type if pat.is_dictionary(k) else k for k in (one, other)))
    if (pat.is_date(one) and pat.is_timestamp(other)) or (
        pat.is_date(other) and pat.is_timestamp(one)
    ):
        return one if pat.is_timestamp(one) else other
    if within_text:
        if {pat.is_timestamp, pat.is_string} == {
            test for test in (pat.is_timestamp, pat.is_string) if test(one) or test(other)
        }:
            return pa.string()
        if pat.is_list(one) and pat.is_list(other):
            inner = joined(one.value_type, other.value_type, within_text=True)
            return inner and pa.list_(inner)
        if pat.is_struct(one) and pat.is_struct(other):
            fields = {field.name: field.type for field in one}
            for field in other:
                kind = joined(fields.get(field.name, pa.null()), field.type, within_text=True)
                if kind is None:
                    return None
                fields[field.name] = kind
            return pa.struct(list(fields.items()))
    numbers = all(pat.is_integer(kind) or pat.is_floating(kind) for kind in (one, other))
    times = pat.is_timestamp(one) and pat.is_timestamp(other)
    if not (numbers or times):
        return None
    both = pa.schema([("values", one)]), pa.schema([("values", other)])
    try:
        return pa.unify_schemas(both, promote_options="permissive").types[0]
    except pa.ArrowTypeError:
        return None
