"""Files of CSV: types that are found in the text, forms of times, and errors that name the line."""

from __future__ import annotations

import codecs
import contextlib
import csv as lines_of_text
import functools
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from tessel.arrays import arrow_scalar
from tessel.errors import DuplicateColumnError, InvalidInputError
from tessel.store import file_kinds
from tessel.store.csv_text import (
    CODES,
    GUESSES,
    Piece,
    Pieces,
    check_encoding,
    check_signs,
    fitting,
    misfit_note,
    numbers_in_text,
    time_forms,
    without_thousands,
)
from tessel.store.file_kinds import (
    File,
    FileOptions,
    Part,
    UnfitError,
    no_rows,
    there,
    unreadable,
)

_NUMBERS = pat.is_integer, pat.is_floating, pat.is_decimal
_VALUE = re.compile(r"[-+]?\d+([.,]\d*)?|\d{4}-\d\d-\d\d.*")
_COMMENT = re.compile(r"#(\s|#|$)")


class CsvFile(File):
    """A file of CSV, whose types its first block says until a value does not fit."""

    _column_error = re.compile(
        r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.*?): (.*)", re.S
    )
    _invalid = re.compile(r"invalid value '(.*)'", re.S)

    def __init__(self, path: Path, options: FileOptions) -> None:
        self.path, self.options = path, options
        self._are_settled = False
        self._find_layout()
        super().__init__(path, options)

    def _find_layout(self) -> None:
        """Find the encoding, the delimiter, the names, and the lines before the first row."""
        options = self.options
        self._encoding = options.encoding
        check_encoding(self.path, options.encoding)
        if options.encoding.lower() == "utf-8":
            with pa.input_stream(str(self.path), compression=self.compression) as stream:
                is_wide = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
                self._encoding = "utf-16" if is_wide else "utf-8-sig"
        self._has_pieces = self._encoding == "utf-8-sig"
        with self._text() as text:
            self._lines_before, first, comments = 0, "", 0
            for at, line in enumerate(text):
                is_comment = options.skip_lines is None and _COMMENT.match(line) is not None
                if line.strip() and not is_comment and at >= (options.skip_lines or 0):
                    self._lines_before, first = at, line
                    break
                comments += is_comment
                # Arrow leaves such lines out whole: a quote in them does not begin a value.
                self._has_pieces = self._has_pieces and '"' not in line
            if comments:
                self.notes += (f"lines of comment before the header: {comments} (--skip-lines)",)
            told = re.fullmatch(r"sep=(.)\s*", first)  # as Excel writes, and understands
            if told is not None:
                self._lines_before, first = self._lines_before + 1, next(text, "")
            self._delimiter = options.delimiter or (told[1] if told else self._guessed(first))
            check_signs(self.path, self._delimiter, options.decimal, options.thousands)
            rows = lines_of_text.reader(itertools.chain([first], text), delimiter=self._delimiter)
            try:
                row = next(rows, [])
            except lines_of_text.Error as error:  # such as a quote that is not closed
                raise unreadable(self.path, error) from error
        if not row:
            raise unreadable(self.path, "Empty CSV file")
        self._names = [name.strip().lstrip("\ufeff") for name in row]
        self._first_line = self._lines_before + rows.line_num
        if options.columns is not None:
            self._names = list(options.columns) or [f"f{at}" for at in range(len(row))]
            self._first_line = self._lines_before
        elif value := next(filter(_VALUE.fullmatch, self._names), ""):
            self.notes += (f"the first line is names, such as {value!r} (--no-header)",)
        if any("\ufffd" in name for name in self._names):
            raise self._other_encoding("the header")
        twice = next((n for n, count in Counter(self._names).items() if count > 1), None)
        if twice is not None:
            raise DuplicateColumnError(
                f"two columns of {str(self.path)!r} are named {twice!r}",
                hint=f"name all: tessel import --skip-lines {self._first_line} --columns NAMES",
                column=twice,
            )

    def _guessed(self, header: str) -> str:
        if ".tsv" in map(str.lower, self.path.suffixes):
            return "\t"
        bare = re.sub(r'"[^"]*"', "", header)
        found = [each for each in ",;\t|" if each in bare]
        if found in ([";"], ["\t"], ["|"]):
            self.notes += (f"the delimiter is {found[0]!r}, by the header (--delimiter)",)
            return found[0]
        return ","

    def open(
        self, schema: pa.Schema | None, *, as_text: bool = False
    ) -> tuple[pa.Schema, Iterator[Part]]:
        """Return the columns and the parts of the rows; ``as_text`` converts no value."""
        from pyarrow import csv

        options = self.options
        given = self._given(schema)
        if as_text:
            given = dict.fromkeys(self._names, pa.string())
        elif schema is not None:
            # Dates of forms that no time has, as with a space before them, become times later; and
            # leading zeros are seen in text alone. Once all values were looked at, none are there.
            told = {*options.types, *options.epochs}
            given |= {
                name: kind if pat.is_date(kind) else pa.string()
                for name, kind in self.types.items()
                if (pat.is_date(kind) and not pat.is_string(given[name]))
                or (kind == pa.int64() and name not in told and not self._are_settled)
            }
        if options.thousands:
            numbers = {n for n, kind in given.items() if any(each(kind) for each in _NUMBERS)}
            given |= dict.fromkeys(numbers - set(options.epochs), pa.string())
        # Arrow's own handler of interrupts loses some that come near the end of a call: the process
        # goes on as if nobody had pressed a key. Python's handler stays in place.
        pa.enable_signal_handlers(False)
        converted = csv.ConvertOptions(
            column_types=given,
            null_values=list(options.missing),
            strings_can_be_null=True,
            timestamp_parsers=time_forms(options),
            decimal_point=options.decimal,
        )
        # By pieces of 1 MB, which caches hold, 3 M rows cost less than by 0.5, 2 or 4 MB.
        size = file_kinds.BLOCK_BYTES // (1 if schema is None else 8)
        parts = self._parts(converted, size)
        first = next(parts)()
        for field in first.schema:
            if pat.is_binary(field.type) and field.name not in options.types:
                raise self._other_encoding(f"column {field.name!r}", field.name)
        return first.schema, itertools.chain([lambda: first], parts)

    def _parts(self, converted: Any, size: int) -> Iterator[Part]:
        """Return the rows, in at least one part, by pieces of some size in bytes.

        A piece of whole rows is parsed by whichever thread has time. Where bytes do not say for
        sure where rows end, Arrow's reader of streams goes on.
        """
        from pyarrow import csv

        def options(block: int, done: int, *, is_whole: bool) -> tuple[Any, Any]:
            read = csv.ReadOptions(
                use_threads=not converted.column_types,  # to find types cannot fail on any of them
                block_size=block,
                encoding=self._encoding.removesuffix("-sig"),
                column_names=self._names,
                skip_rows=0 if done else self._lines_before,
                skip_rows_after_names=int(self.options.columns is None and not done),
            )
            parse = csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=not is_whole)
            return read, parse

        def parsed(piece: Piece) -> pa.RecordBatch:
            told = options(piece.end, piece.start, is_whole=True)
            with self._refusing():
                found = csv.read_csv(pa.py_buffer(piece.rows), *told, converted).combine_chunks()
            pieces.give_back(piece)
            return (found.to_batches() or [no_rows(found.schema)])[0]

        pieces = Pieces(self.text(), size, self._delimiter, self._first_line)
        if self._has_pieces:
            for piece in pieces:
                yield functools.partial(parsed, piece)
        if pieces.unclosed is not None:
            raise self._unclosed(pieces.unclosed)
        if pieces.are_all:
            return
        stream, left = self.text(), pieces.done
        while left:
            left -= len(stream.read(min(left, file_kinds.BLOCK_BYTES)))
        block = options(file_kinds.BLOCK_BYTES, pieces.done, is_whole=False)
        with self._refusing():
            yield from there(csv.open_csv(stream, *block, converted))

    def first_types(self) -> dict[str, pa.DataType]:
        """Return names and types of the columns, by the first block of text."""
        types = super().first_types()
        parts = self.open(None, as_text=True)[1]
        text = next(parts)()
        self.are_sure = next(parts, None) is None
        vars(self).pop("share", None)
        given = self._given(None)
        for name in types:
            values = text.column(name)
            plain = self._plain(values)
            if name not in given and plain is not values:
                types[name] = fitting(plain.drop_null(), GUESSES, self.options)[0]
            kind = types[name] = given.get(name, types[name])
            if self.are_sure and kind == pa.int64() and name not in given:
                # Whole numbers are cast from text first, with no space around them.
                self.are_sure = not pc.any(pc.match_substring_regex(values, r"\s")).as_py()
            if kind in CODES and name not in given and self._are_codes(name, values, kind):
                types[name] = pa.string()
            elif kind == pa.string() and values.null_count < len(values):
                self.notes += numbers_in_text(name, values, self._delimiter, self.options.decimal)
        return types

    def _plain(self, text: pa.Array) -> pa.Array:
        between, decimal = self.options.thousands, self.options.decimal
        return text if between is None else without_thousands(text, between, decimal)

    def _are_codes(self, name: str, values: pa.Array, kind: pa.DataType) -> bool:
        """Return whether values that could be numbers are digits of codes."""
        found = pc.filter(values, pc.match_substring_regex(values, CODES[kind]))
        if len(found):
            why = f"numbers lose digits of {found[0]} (--type {name}={kind})"
            self.notes += (f"column {name!r} is text: {why}",)
        return bool(len(found))

    def _cast(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        values = batch.column(field.name)
        if not pat.is_string(values.type) or pat.is_string(field.type):
            return super()._cast(batch, field)
        is_given = field.name in self.options.types
        if not is_given:
            is_long = pc.greater(pc.binary_length(values), arrow_scalar(1))
            zeros = pc.and_(pc.starts_with(values, "0"), is_long)
            codes = CODES[pa.int64()]
            if pc.any(zeros).as_py() and pc.any(pc.match_substring_regex(values, codes)).as_py():
                raise UnfitError(self)
        if self.options.thousands:
            plain = pc.replace_substring(self._plain(values), self.options.decimal, ".")
            values = pc.utf8_trim_whitespace(plain)
        try:
            return values.cast(self.types[field.name]).cast(field.type)
        except pa.ArrowInvalid as error:  # such as numbers with spaces, which Arrow's parser takes
            if is_given and (found := re.search(r"'(.*)'", str(error), re.S)):
                raise self._misfit(field.name, field.type, found[1]) from error
            raise UnfitError(self) from error

    def settled_types(self) -> dict[str, pa.DataType]:
        """Return types that hold every value, by reading all of them."""
        self._are_settled = True
        # A type that fits the first block need not be the one for all: 0 and 1 are whole numbers,
        # and truth values where "true" follows. So all types that fit are kept for each column.
        left = {
            name: [given] if (given := self.options.types.get(name)) else GUESSES
            for name in self.types
        }
        _, parts = self.open(None, as_text=True)
        for read in parts:
            batch = read()
            for name, kinds in left.items():
                if len(kinds) > 1:
                    text = self._plain(batch.column(name)).drop_null()
                    before, kinds = kinds[0], fitting(text, kinds, self.options)
                    if len(kinds) == 1 and not pat.is_null(before):
                        self.notes += (misfit_note(name, self._first_misfit(text, before), before),)
                    if kinds[0] in CODES and self._are_codes(name, text, kinds[0]):
                        kinds = kinds[-1:]
                    left[name] = kinds
        return {name: kinds[0] for name, kinds in left.items()}

    def misfit(self, name: str, kind: pa.DataType) -> str:
        """Return where the first value lies that is none of a type."""
        at = self._names.index(name)
        for read in self.open(None, as_text=True)[1]:
            text = self._plain(read().column(name)).drop_null()
            if len(fitting(text, [kind, pa.string()], self.options)) < 2:
                value = self._first_misfit(text, kind)
                line = self._line(lambda row: at < len(row) and row[at] == value)  # noqa: B023
                return f"{str(self.path)!r}, line {line}: {value!r}"
        return ""

    def _first_misfit(self, text: pa.Array, kind: pa.DataType) -> str:
        """Return the first of some values, one of which is none of a type."""
        while len(text) > 1:
            half = len(text) // 2
            fits = len(fitting(text[:half], [kind, pa.string()], self.options)) > 1
            text = text[half:] if fits else text[:half]
        return str(text[0])

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid as error:
            raise self._refusal(error) from error
        except UnicodeError as error:
            raise unreadable(self.path, error) from error

    def _other_encoding(self, what: str, column: str | None = None) -> InvalidInputError:
        return InvalidInputError(
            f"{what} of {str(self.path)!r} is no text in {self.options.encoding}",
            hint="name its encoding: tessel import --encoding cp1252; pandas and Polars take one",
            path=str(self.path),
            column=column,
        )

    def _refusal(self, error: pa.ArrowInvalid) -> Exception:
        """Return the error for what Arrow could not read: where it lies, what would help."""
        found = self._column_error.search(str(error))
        if found is None:
            return self._unreadable(str(error))
        number, kind, what = found.groups()
        name = self._names[int(number)]
        if "UTF8" in what:
            return self._other_encoding(f"column {name!r}", name)
        if name not in self.options.types and name not in self.options.epochs:
            return UnfitError(self)
        value = self._invalid.search(what)
        return self._misfit(name, kind, value.group(1) if value else "")

    def _misfit(self, name: str, kind: object, text: str) -> InvalidInputError:
        at = self._names.index(name)
        line = self._line(lambda row: at < len(row) and row[at] == text)
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
        header = "the header" if self.options.columns is None else "--columns"
        line = self._line(lambda row: len(row) == got and bool(row))
        return InvalidInputError(
            f"cannot read {str(self.path)!r}: line {line} has {got} values, and {header} has "
            f"{wanted} names",
            hint=f"the file may end early, a value with {self._delimiter!r} may lack its quotes, "
            "or another character may lie between values: tessel import --delimiter"
            + f"; if line {line} is the header: --skip-lines {line - 1}"
            * (got > wanted and self.options.columns is None),
            path=str(self.path),
        )

    def _unclosed(self, at: int) -> InvalidInputError:
        """Return the error for a quote, after so many bytes of text, that nothing closes."""
        line = 1
        with self.text() as text:
            while at > 0 and (block := text.read(min(at, file_kinds.BLOCK_BYTES))):
                line, at = line + block.count(b"\n"), at - len(block)
        return unreadable(self.path, f"line {line} has a quote that is not closed")

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a row ends; a blank line is not a row."""
        counted = itertools.count()
        return self._line(lambda values: bool(values) and next(counted) == row)

    def _line(self, wanted: Callable[[list[str]], bool]) -> int:
        """Return the number of the line of the first row that is wanted, behind the header."""
        with self._text() as text:
            before = self._lines_before
            lines = itertools.islice(text, before, None)
            rows = lines_of_text.reader(lines, delimiter=self._delimiter)
            behind = (row for row in rows if before + rows.line_num > self._first_line)
            found: int = next((rows.line_num for row in behind if wanted(row)), rows.line_num)
            return before + found

    @contextlib.contextmanager
    def _text(self) -> Iterator[io.TextIOWrapper]:
        """Open the text for a look; what is none in its encoding is marked."""
        with (
            pa.input_stream(str(self.path), compression=self.compression) as stream,
            io.TextIOWrapper(stream, self._encoding, errors="replace", newline="") as text,
        ):
            yield text
