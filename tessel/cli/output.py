"""What prints: one class for each form of ``--output``.

A command hands over one of three things and knows nothing of forms: a table (Arrow), facts (names
and values) or a document (text for people beside plain data for programs). Results go to standard
output and nothing else does, so that every form but ``table`` can be piped on.
"""

from __future__ import annotations

import codecs
import csv
import enum
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

from tessel.errors import InvalidInputError

_BATCH_ROWS = 8192


class OutputFormat(enum.StrEnum):
    """The forms of ``--output``."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class Output(ABC):
    """Prints what a command computed."""

    @abstractmethod
    def table(self, table: Any, *, title: str | None = None) -> None:
        """Print a :class:`pyarrow.Table`; only forms for people show the title."""

    def rows(self, rows: Any, columns: str, *, title: str | None = None) -> None:
        """Print rows by the names of their columns, which are text, or ``rows:int64``."""
        import pyarrow as pa

        from tessel.arrays import table_of_rows
        from tessel.expression.scalars import scalar_of

        parts = [each.partition(":") for each in columns.split()]
        kinds = {name: pa.type_for_alias(kind or "string") for name, _, kind in parts}
        if "timestamp" in kinds:
            kinds["timestamp"] = pa.timestamp("us", "UTC")
        held = [
            [scalar_of(row.get(n)).value if n == "timestamp" else row.get(n) for n in kinds]
            for row in rows
        ]
        self.table(table_of_rows(held, pa.schema(list(kinds.items()))), title=title)

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print names and values; by default as two columns of text."""
        values = [None if value is None else str(value) for value in facts.values()]
        self._texts({"name": list(facts), "value": values})

    def document(self, text: str, data: Any) -> None:
        """Print a text for people, by default as a column of lines, or its plain ``data``."""
        self._texts({"line": text.splitlines()})

    def _texts(self, columns: Mapping[str, Sequence[str | None]]) -> None:
        import pyarrow as pa

        from tessel.arrays import arrow_array

        made = {name: arrow_array(list(each), pa.string()) for name, each in columns.items()}
        self.table(pa.table(made))


def printable(table: Any) -> Any:
    """Return the table with dates, times and durations as text (a duration as ``1500ms``).

    Arrow's text keeps nanoseconds and zones, which Python's datetime would lose.
    """
    import pyarrow as pa

    columns = [_printable_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _printable_column(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _printable_column(column.cast(kind.value_type))
    if not pa.types.is_temporal(kind):
        return column
    text = pc.cast(column, pa.string())
    if pa.types.is_duration(kind):
        return pc.binary_join_element_wise(text, kind.unit, "")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _plain_rows(table: Any) -> Iterator[list[Any]]:
    for batch in printable(table).to_batches(max_chunksize=_BATCH_ROWS):
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield [_plain(value) for value in values]


class JsonOutput(Output):
    """An array of objects, one a line; missing is ``null``, infinities and decimals are text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # The escapes of the stream itself, such as \xfc, are none of JSON.
        encoding = codecs.lookup(stream.encoding or "utf-8").name
        self._escapes = not encoding.startswith("utf")

    def table(self, table: Any, *, title: str | None = None) -> None:
        """Print one object a row."""
        separator = "[\n"
        for values in _plain_rows(table):
            row = dict(zip(table.column_names, values, strict=True))
            text = json.dumps(row, ensure_ascii=self._escapes, allow_nan=False)
            self._stream.write(separator + text)
            separator = ",\n"
        self._stream.write("[]\n" if separator == "[\n" else "\n]\n")

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print one object."""
        self.document("", dict(facts))

    def document(self, text: str, data: Any) -> None:
        """Print the data."""
        json.dump(_plain(data), self._stream, ensure_ascii=self._escapes, indent=2, allow_nan=False)
        self._stream.write("\n")


class CsvOutput(Output):
    """A header and one line a row (RFC 4180); missing is empty, nested values are JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")

    def table(self, table: Any, *, title: str | None = None) -> None:
        """Print the header and the rows."""
        self._writer.writerow(table.column_names)
        for values in _plain_rows(table):
            self._writer.writerow(
                json.dumps(value) if isinstance(value, list | dict) else value for value in values
            )


class ArrowOutput(Output):
    """An Arrow IPC stream of exactly the result, types and metadata included."""

    def __init__(self, stream: BinaryIO) -> None:
        if stream.isatty():
            raise InvalidInputError(
                "an Arrow stream is binary and is not printed on a terminal",
                hint="send it to a file or a program: tessel ... --output arrow > result.arrows",
            )
        self._stream = stream

    def table(self, table: Any, *, title: str | None = None) -> None:
        """Write the table."""
        import pyarrow as pa

        with pa.ipc.new_stream(self._stream, table.schema) as writer:
            writer.write_table(table)
        self._stream.flush()


def make_output(form: OutputFormat) -> Output:
    """Return what prints in this form on standard output.

    Raises
    ------
    InvalidInputError
        For ``arrow`` where standard output is a terminal.
    """
    if form is OutputFormat.JSON:
        return JsonOutput(sys.stdout)
    if form is OutputFormat.CSV:
        return CsvOutput(sys.stdout)
    if form is OutputFormat.ARROW:
        return ArrowOutput(sys.stdout.buffer)
    from tessel.cli.output_table import TableOutput

    return TableOutput()
