"""Files of tables: CSV, JSON lines, Parquet and Arrow, read through pyarrow block by block.

Several files are the parts of one table: their columns have one order, and each column has one
type, the narrowest that holds what all of them have. A text file has no types. They are taken from
its first block; where a value further down does not fit (``1.5`` below whole numbers), the file is
read once more to find types that hold every value, and whoever took rows takes them again.
"""

from __future__ import annotations

import csv as lines_of_text
import dataclasses
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    nearest,
)
from tessel.lazy import dataclass

__all__ = ["EPOCHS", "KINDS", "TIME_FORMATS", "FileOptions", "Files", "require_file"]

BLOCK_BYTES = 8 << 20
"""So much text is parsed at a time; types are guessed from the first block."""

TIME_FORMATS = (
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y.%m.%d %H:%M:%S",
    "%Y.%m.%d",
    "%Y%m%d %H:%M:%S",
    "%b %d %Y %H:%M:%S",
    "%b %d %Y",
    "%b %d, %Y",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y",
    "%d-%b-%Y",
)
"""Forms of dates that are known beside ISO 8601. Of ``03/04/2010`` nobody knows which number is the
month, so such a form is only taken when it is given."""

EPOCHS = {"epoch": "s", "epoch-ms": "ms", "epoch-us": "us", "epoch-ns": "ns"}
"""Time formats of whole numbers: how many of a unit since 1970, in UTC."""

T = TypeVar("T")


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
        Of the text of a CSV file.
    """

    kind: str | None = None
    missing: tuple[str, ...] = ("", "NA", "null")
    time_formats: tuple[str, ...] = ()
    epochs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    types: Mapping[str, pa.DataType] = dataclasses.field(default_factory=dict)
    encoding: str = "utf-8"


def require_file(path: Path) -> Path:
    """Return the path of a file that exists.

    Raises
    ------
    InvalidInputError
        Where there is none, with the nearest name in its folder.
    """
    if path.is_file():
        return path
    if path.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder, not a file", path=str(path))
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    match = nearest(path.name, beside)
    raise InvalidInputError(
        f"no file {str(path)!r}",
        hint=f"did you mean {str(path.with_name(match))!r}?" if match else "check the path",
        path=str(path),
    )


class _UnfitError(Exception):
    """A value of a text file does not fit the type that its first block gave the column."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


class Files:
    """The files of one table, in their order.

    Parameters
    ----------
    paths
        At least one file.
    options
        How they are read.

    Raises
    ------
    InvalidInputError
        For a file that is absent, of no known kind, or damaged.
    SchemaMismatchError
        For columns that differ, and for types that nothing holds both of; names column and files.
    """

    def __init__(self, paths: Sequence[Path], options: FileOptions | None = None) -> None:
        self._options = options or FileOptions()
        self._files = [_opened(path, self._options) for path in paths]
        self.schema = _common(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def take(self, taker: Callable[[Iterator[pa.RecordBatch]], T], only: int | None = None) -> T:
        """Hand the rows to a function, and return what it returns.

        Parameters
        ----------
        taker
            Goes through batches of :attr:`schema`, of which there is at least one. It is called
            again with all rows, of wider types, where a value did not fit: so it must undo what it
            did when the iterator raises, as a transaction does.
        only
            The number of one file, counted from 0, instead of all.
        """
        while True:
            chosen = self._files if only is None else [self._files[only]]
            try:
                return taker(self._batches(chosen))
            except _UnfitError as unfit:
                file = next(file for file in self._files if file.path == unfit.path)
                file.types = file.settled_types()
                self.schema = _common(self._files)

    def settle(self) -> None:
        """Read every text file once, so that no value is found that does not fit."""
        for file in self._files:
            if file.path.stat().st_size > BLOCK_BYTES or file.is_compressed:
                file.types = file.settled_types()
        self.schema = _common(self._files)

    def _batches(self, files: Sequence[_File]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema=self.schema)
        for file in files:
            for batch in file.batches(self.schema):
                if batch.num_rows:
                    yield batch


class _File:
    """One file: its columns as far as they are known, and its rows as a schema that is asked for.

    Attributes
    ----------
    path
        Where it lies.
    types
        Names and types of its columns.
    """

    def __init__(self, path: Path, options: FileOptions) -> None:
        self.path = path
        self.options = options
        self.types = self.first_types()

    @property
    def is_compressed(self) -> bool:
        """Whether its length says nothing of that of its text."""
        return self.path.suffix in (".gz", ".bz2", ".zst")

    def first_types(self) -> dict[str, pa.DataType]:
        """Return names and types of the columns, by what is read first."""
        return {field.name: field.type for field in self.open(None)[0]}

    def settled_types(self) -> dict[str, pa.DataType]:
        """Return types that hold every value."""
        return self.types

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches of a schema."""
        try:
            for batch in self.open(schema)[1]:
                columns = [self._cast(batch, field) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.path, error) from error

    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the columns as they lie in the file, and the rows."""
        raise NotImplementedError

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


class _Parquet(_File):
    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from pyarrow import parquet

        opened = parquet.ParquetFile(self.path)

        def batches() -> Iterator[pa.RecordBatch]:
            with closing(opened):
                yield from opened.iter_batches(batch_size=1 << 17)

        return opened.schema_arrow.remove_metadata(), batches()


class _Arrow(_File):
    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        with pa.OSFile(str(self.path)) as start:
            is_file, is_feather = (magic := start.read(6)) == b"ARROW1", magic[:4] == b"FEA1"
        if is_feather:
            from pyarrow import feather

            table = feather.read_table(self.path)
            return table.schema, iter(table.to_batches())
        if not is_file:
            stream = pa.ipc.open_stream(str(self.path))
            return stream.schema.remove_metadata(), iter(stream)
        reader = pa.ipc.open_file(pa.memory_map(str(self.path)))
        numbers = range(reader.num_record_batches)
        return reader.schema.remove_metadata(), (reader.get_batch(at) for at in numbers)


class _JsonLines(_File):
    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from pyarrow import json

        reader = json.open_json(
            pa.input_stream(str(self.path), compression="detect"),
            read_options=json.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema(list(self._given(schema).items()))
            ),
        )
        return reader.schema, iter(reader)


class _Csv(_File):
    _column_error = re.compile(r"In CSV column #(\d+): CSV conversion error to (.*?): (.*)", re.S)
    _invalid = re.compile(r"invalid value '(.*)'", re.S)

    def open(
        self, schema: pa.Schema | None, *, as_text: bool = False
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from pyarrow import csv

        options = self.options
        given = self._given(schema)
        if as_text:
            given = dict.fromkeys(self.types, pa.string())
        # Arrow's own handler of interrupts loses some that come near the end of a call: the process
        # goes on as if nobody had pressed a key. Python's handler stays in place.
        pa.enable_signal_handlers(False)
        try:
            reader = csv.open_csv(
                pa.input_stream(str(self.path), compression="detect"),
                read_options=csv.ReadOptions(block_size=BLOCK_BYTES, encoding=options.encoding),
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=given,
                    null_values=list(options.missing),
                    strings_can_be_null=True,
                    timestamp_parsers=[csv.ISO8601, *options.time_formats, *TIME_FORMATS],
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._refusal(error, list(given)) from error
        self._refuse_bytes(reader.schema)
        return reader.schema, self._rows(reader, list(reader.schema.names))

    def settled_types(self) -> dict[str, pa.DataType]:
        # The narrowest type of a ladder of which every block can be read; Arrow guesses alike.
        found = dict(self.types)
        wanted = {**dict.fromkeys(found, None), **self.options.types}
        _, batches = self.open(None, as_text=True)
        for batch in batches:
            for name, kind in found.items():
                if wanted[name] is None:
                    found[name] = self._widened(batch.column(name), kind)
        return found

    def _widened(self, text: pa.Array, kind: pa.DataType) -> pa.DataType:
        if text.null_count == len(text) or pat.is_string(kind):
            return kind
        guess = self._guess(text)
        if pat.is_null(kind) or guess == kind:
            return guess
        return _joined(kind, guess) or pa.string()

    def _guess(self, text: pa.Array) -> pa.DataType:
        """Return the type that Arrow guesses for values alone in a file."""
        from pyarrow import csv

        written = io.BytesIO()
        csv.write_csv(pa.table([text.drop_null()], ["values"]), written)
        written.seek(0)
        read = csv.read_csv(
            written,
            convert_options=csv.ConvertOptions(
                timestamp_parsers=[csv.ISO8601, *self.options.time_formats, *TIME_FORMATS]
            ),
        )
        return read.schema.types[0]

    def _rows(self, reader: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise self._refusal(error, names) from error
            yield batch

    def _refuse_bytes(self, schema: pa.Schema) -> None:
        for field in schema:
            if pat.is_binary(field.type) and field.name not in self.options.types:
                raise self._other_encoding(field.name)

    def _other_encoding(self, name: str) -> InvalidInputError:
        return InvalidInputError(
            f"column {name!r} of {str(self.path)!r} is no text in {self.options.encoding}",
            hint="name its encoding, for example latin-1",
            path=str(self.path),
            column=name,
        )

    def _refusal(self, error: pa.ArrowInvalid, names: list[str]) -> Exception:
        """Return the error for what Arrow could not read: where it lies, what would help."""
        found = self._column_error.search(str(error))
        if found is None:
            return self._unreadable(str(error))
        number, kind, what = found.groups()
        name = names[int(number)] if int(number) < len(names) else f"number {number}"
        if "UTF8" in what:
            return self._other_encoding(name)
        if name not in self.options.types and name not in self.options.epochs:
            return _UnfitError(self.path)
        value = self._invalid.search(what)
        text = value.group(1) if value else ""
        line = self._line(lambda row: int(number) < len(row) and row[int(number)] == text)
        return InvalidInputError(
            f"{str(self.path)!r}, line {line}, column {name!r}: {text!r} is no {kind}",
            hint="give the column another type or time format, or mend the file",
            path=str(self.path),
            column=name,
        )

    def _unreadable(self, what: str) -> InvalidInputError:
        found = re.search(r"Expected (\d+) columns, got (\d+)", what)
        if found is None:
            return _unreadable(self.path, what)
        wanted, got = map(int, found.groups())
        line = self._line(lambda row: len(row) == got and bool(row))
        return InvalidInputError(
            f"cannot read {str(self.path)!r}: line {line} has {got} values, and the header has "
            f"{wanted} names",
            hint="the file may end early, or a value with a comma may lack its quotes",
            path=str(self.path),
        )

    def _line(self, wanted: Callable[[list[str]], bool]) -> int:
        """Return the number of the line of the first row that is wanted, behind the header."""
        with (
            pa.input_stream(str(self.path), compression="detect") as stream,
            io.TextIOWrapper(stream, encoding=self.options.encoding, newline="") as text,
        ):
            rows = lines_of_text.reader(text)
            next(rows, None)
            return next((rows.line_num for row in rows if wanted(row)), rows.line_num)


def _unreadable(path: Path, what: object) -> InvalidInputError:
    return InvalidInputError(f"cannot read {str(path)!r}: {what}", path=str(path))


KINDS: dict[str, type[_File]] = {
    "csv": _Csv,
    "jsonl": _JsonLines,
    "parquet": _Parquet,
    "arrow": _Arrow,
}
ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".arrows": "arrow",
}
"""What a file is by the end of its name; text also with ``.gz``, ``.bz2`` or ``.zst`` behind it."""


def _opened(path: Path, options: FileOptions) -> _File:
    require_file(path)
    kind = options.kind or _kind_of(path)
    made = KINDS.get(kind)
    if made is None:
        raise InvalidInputError(
            f"no kind of file is named {kind!r}", hint=f"kinds: {', '.join(KINDS)}"
        )
    try:
        return made(path, options)
    except TesselError:  # some are errors of values, as Arrow's are
        raise
    except (pa.ArrowException, OSError, LookupError) as error:
        raise _unreadable(path, error) from error


def _kind_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".bz2", ".zst"):
        suffixes.pop()
    ending = suffixes[-1] if suffixes else ""
    if ending in ENDINGS:
        return ENDINGS[ending]
    excel = ending in (".xls", ".xlsx", ".xlsm", ".ods")
    raise InvalidInputError(
        f"{str(path)!r} is of no kind that is read",
        hint="save the sheet as CSV, or write what pandas.read_excel returns"
        if excel
        else f"files that end in {', '.join(ENDINGS)} are",
        path=str(path),
    )


def _common(files: Sequence[_File]) -> pa.Schema:
    """Return the columns of several files with types that hold the values of all of them."""
    first, options = files[0], files[0].options
    types = dict(first.types)
    holder = dict.fromkeys(types, first)
    for file in files[1:]:
        if list(file.types) != list(types):
            raise SchemaMismatchError(
                f"the columns of {str(file.path)!r} are not those of {str(first.path)!r}",
                hint=f"{', '.join(file.types)}\nagainst {', '.join(types)}",
            )
        for name, kind in file.types.items():
            joined = _joined(types[name], kind)
            if joined is None:
                raise SchemaMismatchError(
                    f"column {name!r} is {types[name]} in {str(holder[name].path)!r} and {kind} in "
                    f"{str(file.path)!r}",
                    hint="give the column a type that both can be, such as string",
                    column=name,
                )
            if joined != types[name]:
                types[name], holder[name] = joined, file
    for name in [*options.types, *options.epochs]:
        if name not in types:
            raise ColumnNotFoundError.for_name(name, list(types), where="the files")
    types.update(options.types)
    for name, form in options.epochs.items():
        types[name] = pa.timestamp(EPOCHS[form])
    return pa.schema(list(types.items()))


def _joined(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds the values of two, or None.

    Whole numbers beside others become doubles, as in a file that has both; times take the finer
    unit.
    """
    if one == other or pat.is_null(other):
        return one
    if pat.is_null(one):
        return other
    if pat.is_dictionary(one) or pat.is_dictionary(other):
        return _joined(*(k.value_type if pat.is_dictionary(k) else k for k in (one, other)))
    if (pat.is_date(one) and pat.is_timestamp(other)) or (
        pat.is_date(other) and pat.is_timestamp(one)
    ):
        return one if pat.is_timestamp(one) else other
    numbers = all(pat.is_integer(kind) or pat.is_floating(kind) for kind in (one, other))
    times = pat.is_timestamp(one) and pat.is_timestamp(other)
    if not (numbers or times):
        return None
    both = pa.schema([("values", one)]), pa.schema([("values", other)])
    try:
        return pa.unify_schemas(both, promote_options="permissive").types[0]
    except pa.ArrowTypeError:
        return None
