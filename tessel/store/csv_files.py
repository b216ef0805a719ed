"""Files of CSV: types that are found in the text, forms of times, and errors that name the line."""

from __future__ import annotations

import contextlib
import csv as lines_of_text
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import InvalidInputError
from tessel.store import file_kinds
from tessel.store.file_kinds import File, UnfitError, unreadable

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


_GUESSES = [
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")),
    pa.float64(),
    pa.string(),
]
"""Types of text in the order in which Arrow tries them."""


class CsvFile(File):
    """A file of CSV, whose types its first block says until a value does not fit."""

    _column_error = re.compile(r"In CSV column #(\d+): CSV conversion error to (.*?): (.*)", re.S)
    _invalid = re.compile(r"invalid value '(.*)'", re.S)

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in map(str.lower, self.path.suffixes) else ","

    def _time_forms(self) -> list[Any]:
        from pyarrow import csv

        return [csv.ISO8601, *self.options.time_formats, *TIME_FORMATS]

    def open(
        self, schema: pa.Schema | None, *, as_text: bool = False
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the columns and the rows; ``as_text`` converts none of them."""
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
                self.text(),
                read_options=csv.ReadOptions(
                    block_size=file_kinds.BLOCK_BYTES, encoding=options.encoding
                ),
                parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=given,
                    null_values=list(options.missing),
                    strings_can_be_null=True,
                    timestamp_parsers=self._time_forms(),
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._refusal(error, self._header()) from error
        self._refuse_bytes(reader.schema)
        return reader.schema, self._rows(reader, list(reader.schema.names))

    def settled_types(self) -> dict[str, pa.DataType]:
        """Return types that hold every value, by reading all of them."""
        # A type that fits the first block need not be the one for all: 0 and 1 are whole numbers,
        # and truth values where "true" follows. So all types that fit are kept for each column.
        fitting = {
            name: [given] if (given := self.options.types.get(name)) else _GUESSES
            for name in self.types
        }
        _, batches = self.open(None, as_text=True)
        for batch in batches:
            for name, kinds in fitting.items():
                if len(kinds) > 1:
                    fitting[name] = self._fitting(batch.column(name).drop_null(), kinds)
        return {name: kinds[0] for name, kinds in fitting.items()}

    def _fitting(self, text: pa.Array, kinds: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return those types, the widest of which is text, that every value can be read as."""
        from pyarrow import csv

        written = pa.BufferOutputStream()
        csv.write_csv(pa.table([text], ["values"]), written)

        def fits(kind: pa.DataType) -> bool:
            options = csv.ConvertOptions(
                column_types={"values": kind}, timestamp_parsers=self._time_forms()
            )
            try:
                csv.read_csv(
                    pa.BufferReader(written.getvalue()),
                    parse_options=csv.ParseOptions(newlines_in_values=True),
                    convert_options=options,
                )
            except pa.ArrowInvalid:
                return False
            return True

        return [kind for kind in kinds[:-1] if not len(text) or fits(kind)] + [kinds[-1]]

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
            hint="name its encoding: tessel import --encoding latin-1; pandas and Polars take one",
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
            return UnfitError(self)
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
            return unreadable(self.path, what)
        wanted, got = map(int, found.groups())
        line = self._line(lambda row: len(row) == got and bool(row))
        return InvalidInputError(
            f"cannot read {str(self.path)!r}: line {line} has {got} values, and the header has "
            f"{wanted} names",
            hint="the file may end early, a value with a comma may lack its quotes, or another "
            "character than a comma may lie between values",
            path=str(self.path),
        )

    def _line(self, wanted: Callable[[list[str]], bool]) -> int:
        """Return the number of the line of the first row that is wanted, behind the header."""
        with self._lines() as rows:
            next(rows, None)
            found: int = next((rows.line_num for row in rows if wanted(row)), rows.line_num)
            return found

    def _header(self) -> list[str]:
        with self._lines() as rows:
            header: list[str] = next(rows, [])
            return header

    @contextlib.contextmanager
    def _lines(self) -> Iterator[Any]:
        with (
            pa.input_stream(str(self.path), compression="detect") as stream,
            io.TextIOWrapper(stream, encoding=self.options.encoding, newline="") as text,
        ):
            yield lines_of_text.reader(text, delimiter=self._delimiter)
