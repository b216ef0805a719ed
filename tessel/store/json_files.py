"""Files with one object of JSON a line: types that are found in the text, as of CSV."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import InvalidInputError
from tessel.store import file_kinds
from tessel.store.csv_text import fitting, text_as
from tessel.store.file_kinds import (
    File,
    FileOptions,
    Part,
    UnfitError,
    joined,
    no_rows,
    unreadable,
)
from tessel.store.frames import check_column_names

_TIMES = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ns") for zone in (None, "UTC")),
    pa.string(),
]


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text in place of times, also within lists and objects."""
    if pat.is_timestamp(kind):
        return pa.string()
    if pat.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([(each.name, _as_text(each.type)) for each in kind])
    return kind


def _is_cast(text: pa.Array, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


_NULL_FIRST = re.compile(rb"(\xef\xbb\xbf)?\s*null")
_NULL_BEHIND = re.compile(rb"\}\s*null")
"""Where ``null`` can be a value of its own: no comma lies before it."""
_ESCAPED = re.compile(rb"\\.")
_LONG = re.compile(rb"[\s:]\d{19,}\s*[,}]")


class JsonLines(File):
    """A file with one object of JSON a line; its first block says the types until one misfits."""

    _changed = re.compile(r"Column\(/(.*?)\) changed from (\S+) to (\S+)")
    _settled = False

    def open(self, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[Part]]:
        """Return the columns and the rows as they lie in the file."""
        assert schema is not None  # first_types finds the types without a part
        given = self._given(schema)
        return schema, self._parts(given)

    def _parts(self, given: dict[str, pa.DataType]) -> Iterator[Part]:
        """Return the rows by blocks of lines, each parsed by whichever thread has time."""
        # By blocks of 1 MB, as of CSV; of one block alone objects may have several lines.
        size = file_kinds.BLOCK_BYTES // (1 if self.are_sure else 8)
        line = 0
        for block in self._blocks(size):
            yield functools.partial(self._batch, block, line, given)
            line += block.count(b"\n")

    def _batch(self, block: bytes, before: int, given: dict[str, pa.DataType]) -> pa.RecordBatch:
        try:
            found = self._table(block, before, given, others="error").combine_chunks()
        except InvalidInputError as error:
            if self._settled:
                raise
            raise UnfitError(self) from error
        return (found.to_batches() or [no_rows(found.schema)])[0]

    def first_types(self) -> dict[str, pa.DataType]:
        """Return names and types of the columns, by the first block of text."""
        blocks = self._blocks(file_kinds.BLOCK_BYTES)
        types = self._types_in(next(blocks, b""), 0, {})
        self.are_sure = next(blocks, None) is None
        vars(self).pop("share", None)
        check_column_names(list(types))
        return types

    def settled_types(self) -> dict[str, pa.DataType]:
        """Return types that hold every value, by those of each block of lines."""
        types: dict[str, pa.DataType] = {}
        times: dict[str, list[pa.DataType]] = {}
        line = 0
        for block in self._blocks(file_kinds.BLOCK_BYTES):
            for name, kind in self._types_in(block, line, times).items():
                before = types.get(name, pa.null())
                both = joined(before, kind, within_text=True)
                if both is None:
                    raise InvalidInputError(
                        f"column {name!r} of {str(self.path)!r} is {before} up to line {line} "
                        f"and {kind} from there on",
                        hint="one column has values of one kind: mend the file",
                        path=str(self.path),
                        column=name,
                    )
                is_mixed = pa.uint64() in (before, kind) and both == pa.int64()
                types[name] = pa.float64() if is_mixed else both
            line += block.count(b"\n")
        self._settled = True
        return types

    def line_of(self, row: int) -> int | None:
        """Return the number of the line of a row; each line that is not blank is one."""
        before = 0
        for block in self._blocks(file_kinds.BLOCK_BYTES):
            for line, text in enumerate(block.split(b"\n"), before + 1):
                row -= bool(text.strip())
                if row < 0:
                    return line
            before += block.count(b"\n")
        return None

    def _types_in(
        self, block: bytes, before: int, times: dict[str, list[pa.DataType]]
    ) -> dict[str, pa.DataType]:
        """Return the types of the columns of some lines, behind ``before`` others.

        Of text, ``times`` has by column the types of times that fit so far, and is narrowed.
        """
        given = self._given(None)
        found = self._table(block, before, given)
        types = {field.name: field.type for field in found.schema}
        texts = {
            name: _as_text(kind)
            for name, kind in types.items()
            if name not in given and (pat.is_nested(kind) or pat.is_string(_as_text(kind)))
        }
        if texts:  # Arrow knows one form of times, and leaves their zones out
            found = self._table(block, before, given | texts)
        if _LONG.search(block):  # whole numbers past int64 are doubles for Arrow
            for name in (n for n, kind in types.items() if pat.is_float64(kind) and n not in given):
                with contextlib.suppress(InvalidInputError):
                    self._table(block, before, {name: pa.uint64()})
                    types[name] = pa.uint64()
        for name in texts:
            types[name] = self._timed(found.column(name).combine_chunks(), times, name)
        return types

    def _timed(
        self,
        text: pa.Array,
        times: dict[str, list[pa.DataType]],
        path: str,
        *,
        is_inner: bool = False,
    ) -> pa.DataType:
        """Return the type of values whose times are text, also within lists and objects."""
        kind = text.type
        if pat.is_list(kind):
            return pa.list_(self._timed(text.flatten(), times, f"{path}[]", is_inner=True))
        if pat.is_struct(kind):
            inner = zip(kind, text.flatten(), strict=True)
            return pa.struct(
                [
                    (each.name, self._timed(part, times, f"{path}.{each.name}", is_inner=True))
                    for each, part in inner
                ]
            )
        if not pat.is_string(kind):
            return kind
        options = FileOptions(time_formats=()) if is_inner else self.options
        found = fitting(text.drop_null(), times.get(path, _TIMES), options)
        if is_inner and not _is_cast(text, found[0]):
            found = found[-1:]  # Arrow casts one form alone, and only that within others
        times[path] = found
        return found[0]

    def _table(
        self,
        block: bytes,
        before: int,
        types: Mapping[str, pa.DataType],
        others: str = "infer",
    ) -> pa.Table:
        """Return the rows of some lines; ``others`` says what becomes of columns without a type."""
        from pyarrow import json

        self._refuse_null(block, before)
        try:
            return json.read_json(
                pa.BufferReader(block),
                read_options=json.ReadOptions(use_threads=False, block_size=max(1, len(block))),
                parse_options=json.ParseOptions(
                    explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior=others
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._refusal(error, block, before) from error

    def _refuse_null(self, block: bytes, before: int) -> None:
        """Raise ``InvalidInputError`` for a line that is ``null``.

        Arrow's parser reads past its memory there, which ends the process, or makes a row of it.
        """
        first = _NULL_FIRST.match(block)
        for found in filter(None, [first, *_NULL_BEHIND.finditer(block)]):
            line = block[block.rfind(b"\n", 0, found.start()) + 1 : found.start()]
            if _ESCAPED.sub(b"", line).count(b'"') % 2 == 0:  # not within a text
                raise self._no_object(before + block.count(b"\n", 0, found.end()) + 1, "null")

    def _no_object(self, line: int, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"{str(self.path)!r}, line {line}: a value that is no object but {what}",
            hint='each line is one object, such as {"price": 1.5}: mend the file',
            path=str(self.path),
        )

    def _given(self, schema: pa.Schema | None) -> dict[str, pa.DataType]:
        told = super()._given(schema)
        own = {*self.options.types, *self.options.epochs}
        return {name: kind if name in own else _as_text(kind) for name, kind in told.items()}

    def _cast(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        values = batch.column(field.name)
        if field.name in self.options.types or _as_text(field.type) == field.type:
            return super()._cast(batch, field)
        kind = self.types[field.name]
        try:
            return values.cast(kind).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if not pat.is_string(values.type):
                raise UnfitError(self) from error
        try:  # of another form than that of ISO
            return text_as(values, kind, self.options).cast(field.type)
        except pa.ArrowInvalid as error:
            raise UnfitError(self) from error

    def _blocks(self, size: int) -> Iterator[bytes]:
        """Return the text in blocks of whole lines, of about so many bytes."""
        rest = b""
        with self.text() as stream:
            while text := stream.read(max(1, size)):
                lines, newline, behind = text.rpartition(b"\n")
                if newline:
                    yield rest + lines + newline
                    rest = b""
                rest += behind
        if rest.strip():
            yield rest

    def _refusal(self, error: pa.ArrowInvalid, block: bytes, before: int) -> InvalidInputError:
        """Return the error for a block that Arrow cannot read, with the number of the line."""
        at = re.search(r"in row (\d+)", str(error))
        if at is None:
            return unreadable(self.path, error)
        rows = [n for n, text in enumerate(block.split(b"\n"), before + 1) if text.strip()]
        line = rows[min(int(at.group(1)), len(rows) - 1)]
        found = self._changed.search(str(error))
        if found is None:
            other = re.search(r"Column\(\) changed from object to (\S+)", str(error))
            if other is not None:
                return self._no_object(line, other[1])
            return unreadable(self.path, f"line {line}: {error}")
        name, was, now = found.groups()
        told = self.options.types.get(name)
        what = f"below values of the kind {was}" if told is None else f"is no {told}"
        return InvalidInputError(
            f"{str(self.path)!r}, line {line}, column {name!r}: a {now} {what}",
            hint="one column has values of one kind: mend the file"
            if told is None
            else "give the column another type, or mend the file",
            path=str(self.path),
            column=name,
        )
