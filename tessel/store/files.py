"""Files of tables: CSV, JSON lines, Parquet and Arrow, read through pyarrow block by block.

Several files are the parts of one table: their columns have one order, and each column has one
type, the narrowest that holds what all of them have. A text file has no types. They are taken from
its first block; where a value further down does not fit (``1.5`` below whole numbers), the file is
read once more to find types that hold every value, and whoever took rows takes them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pat

from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    nearest,
    shown,
)
from tessel.store.csv_files import CsvFile
from tessel.store.file_kinds import (
    EPOCHS,
    ArrowFile,
    File,
    FileOptions,
    ParquetFile,
    UnfitError,
    joined,
    no_rows,
    unreadable,
)
from tessel.store.json_files import JsonLines
from tessel.store.segment.types import is_index_type
from tessel.telemetry import emit

T = TypeVar("T")


def require_file(path: Path) -> Path:
    """Return the path of a file that exists.

    Raises InvalidInputError where there is none, with the nearest name in its folder, and for what
    is no regular file.
    """
    try:
        if path.is_file():
            return path
    except (OSError, ValueError) as error:  # text that is no path, such as a whole file
        raise InvalidInputError(
            f"{shown(str(path))} is no path of a file: {error}", hint="give a table or a path"
        ) from error
    if path.is_dir():
        raise InvalidInputError(
            f"{str(path)!r} is a folder, not a file",
            hint="name the files in it: folder/*.csv; a folder that is a store is opened",
            path=str(path),
        )
    if path.exists():
        raise InvalidInputError(
            f"{str(path)!r} is no regular file but a pipe or a device, which is not read twice",
            hint="write it to a file first; tessel import - reads tables from standard input",
            path=str(path),
        )
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    match = nearest(path.name, [name for name in beside if name != path.name])
    hint = f"did you mean {str(path.with_name(match))!r}?" if match else "check the path"
    if path.is_symlink():
        hint = f"it is a link to {str(path.readlink())!r}, which is not there"
    raise InvalidInputError(f"no file {str(path)!r}", hint=hint, path=str(path))


class Files:
    """The files of one table, in their order.

    Raises InvalidInputError for a file that is absent, of no known kind, or damaged;
    SchemaMismatchError for columns that differ, and for types that nothing holds both of; names
    column and files.

    Parameters
    ----------
    paths
        At least one file.
    stored
        The columns of the symbol that the rows are added to: a file has values of their types
        where nothing is lost by it, as of whole numbers in a column of doubles.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        options: FileOptions | None = None,
        stored: pa.Schema | None = None,
    ) -> None:
        options = options or FileOptions()
        self._stored = pa.schema([]) if stored is None else stored
        self._files = [_opened(path, options) for path in paths]
        self.schema = self._common()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def notes(self) -> list[str]:
        """What was guessed of the files, each thing once."""
        return list(dict.fromkeys(note for file in self._files for note in file.notes))

    def misfits(self, index: str | None) -> str:
        """Return, a line for each column that has not the type it needs, where a value lies.

        That is its stored type, and of an index that is not stored yet a time, if it has a type
        of none.
        """
        wanted = list(self._stored)
        is_new = index in self.schema.names and index not in self._stored.names
        if index is not None and is_new and not is_index_type(self.schema.field(index).type):
            wanted.append(pa.field(index, pa.timestamp("us")))
        found = (
            file.misfit(field.name, field.type)
            for field in wanted
            if field.name in self.schema.names and self.schema.field(field.name).type != field.type
            for file in self._files
        )
        return "\n".join(filter(None, found))

    def missing(self, name: str) -> str:
        """Return where the first missing value of a column lies; empty if there is none."""
        for file in self._files:
            before = 0
            for batch in file.batches(self.schema):
                if (values := batch.column(name)).null_count:
                    return file.place(before + values.is_null().index(True).as_py())
                before += batch.num_rows
        return ""

    def place(self, row: int | None, only: int | None = None) -> str:
        """Return where a row lies, by its number among those that :meth:`take` hands out.

        Of a row without a number, only its file is told, where there is one.
        """
        chosen = self._files if only is None else [self._files[only]]
        if row is None:
            return repr(str(chosen[0].path)) if len(chosen) == 1 else ""
        for file in chosen[:-1]:
            rows = sum(batch.num_rows for batch in file.batches(self.schema))
            if row < rows:
                return file.place(row)
            row -= rows
        return chosen[-1].place(row)

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
        settled: list[File] = []
        while True:
            chosen = self._files if only is None else [self._files[only]]
            try:
                return taker(self._batches(chosen))
            except UnfitError as unfit:
                if unfit.file in settled:
                    raise unfit.refusal() from unfit
                settled.append(unfit.file)
                unfit.file.types = unfit.file.settled_types()
                self.schema = self._common()

    def settled_rows(self) -> Iterator[pa.RecordBatch]:
        """Return the rows once, of :attr:`schema` as it is from then on.

        The rest of every text file is read first, so that no value is found that does not fit.
        """
        for file in self._files:
            if not file.are_sure:
                file.types = file.settled_types()
        self.schema = self._common()

        def rows() -> Iterator[pa.RecordBatch]:
            try:
                yield from self._batches(self._files)
            except UnfitError as unfit:
                raise unfit.refusal() from unfit

        return rows()

    def _common(self) -> pa.Schema:
        """Return the columns of all files, in types of the symbol where those hold them."""
        found = _common(self._files)
        of_text = all(isinstance(file, CsvFile) for file in self._files)
        for at, field in enumerate(found):
            if field.name in self._files[0].options.types or field.name not in self._stored.names:
                continue
            kind = self._stored.field(field.name).type
            if joined(field.type, kind) == kind or (of_text and pat.is_string(kind)):
                found = found.set(at, field.with_type(kind))
        return found

    def _batches(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        yield no_rows(self.schema)
        sizes = [file.path.stat().st_size for file in files]
        rows = before = 0
        for file, size in zip(files, sizes, strict=True):
            for batch in file.batches(self.schema):
                if batch.num_rows:
                    rows += batch.num_rows
                    done = before + int(file.share() * size)
                    emit("file.read", done=done, total=sum(sizes), rows=rows, bytes=done)
                    yield batch
            before += size


KINDS: dict[str, type[File]] = {
    "csv": CsvFile,
    "jsonl": JsonLines,
    "parquet": ParquetFile,
    "arrow": ArrowFile,
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


def _opened(path: Path, options: FileOptions) -> File:
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
    except (pa.ArrowException, OSError, LookupError, UnicodeError) as error:
        raise unreadable(path, error) from error


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
        else f"files that end in {', '.join(ENDINGS)} are; of others, tessel import --format csv "
        "says the kind",
        path=str(path),
    )


def _common(files: Sequence[File]) -> pa.Schema:
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
            both = joined(types[name], kind)
            if both is None:
                raise SchemaMismatchError(
                    f"column {name!r} is {types[name]} in {str(holder[name].path)!r} and {kind} in "
                    f"{str(file.path)!r}",
                    detail=file.misfit(name, types[name]) or holder[name].misfit(name, kind),
                    hint="mend the file, or give the column a type that both can be: tessel import "
                    f"--type {shlex.quote(name)}=string",
                    column=name,
                )
            if both != types[name]:
                types[name], holder[name] = both, file
    for name in [*options.types, *options.epochs]:
        if name not in types:
            raise ColumnNotFoundError.for_name(name, list(types), where="the files")
    types.update(options.types)
    for name, form in options.epochs.items():
        types[name] = pa.timestamp(EPOCHS[form])
    return pa.schema(list(types.items()))
