"""Readers of the files that ``tessel import`` takes: CSV, Parquet and Feather, through pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tessel.errors import InvalidInputError, SchemaMismatchError, nearest

__all__ = ["read_csv", "read_files", "require_file"]


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


def read_csv(source: Any, convert_options: Any) -> Any:
    """Read a CSV file or stream into a table; Ctrl-C ends the process when the text is read.

    Arrow's own handler of interrupts, in place while it reads, loses one in ten of those that
    come near the end of a call (pyarrow 26: 14 of 120): the process then goes on as if nobody had
    pressed a key. Python's handler, which stays in place here, loses none.
    """
    import pyarrow as pa
    from pyarrow import csv

    pa.enable_signal_handlers(False)
    return csv.read_csv(source, convert_options=convert_options)


def _read_csv(path: Path, missing: Sequence[str]) -> Any:
    from pyarrow import csv

    convert = csv.ConvertOptions(
        null_values=list(missing), strings_can_be_null=True, timestamp_parsers=[csv.ISO8601]
    )
    return read_csv(path, convert)


def _read_parquet(path: Path, missing: Sequence[str]) -> Any:
    del missing
    from pyarrow import parquet

    return parquet.read_table(path, partitioning=None)


def _read_feather(path: Path, missing: Sequence[str]) -> Any:
    del missing
    from pyarrow import feather

    return feather.read_table(path)


_READERS: dict[str, Callable[[Path, Sequence[str]], Any]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".parquet": _read_parquet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
}


def _read_file(path: Path, missing: Sequence[str]) -> Any:
    import pyarrow as pa

    require_file(path)
    name = path.name.lower()
    reader = next((read for end, read in _READERS.items() if name.endswith(end)), None)
    if reader is None:
        raise InvalidInputError(
            f"{str(path)!r} is of no kind that is read",
            hint=f"files that end in {', '.join(_READERS)} are",
            path=str(path),
        )
    try:
        return reader(path, missing)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise InvalidInputError(f"cannot read {str(path)!r}: {error}", path=str(path)) from error


def read_files(paths: Sequence[Path], *, missing: Sequence[str] = ("", "NA", "null")) -> Any:
    """Read files of one schema into one table, in the order given.

    Parameters
    ----------
    paths
        At least one file; its ending says what it is.
    missing
        The texts of a CSV file that stand for a missing value. Column types of CSV files are
        inferred from the whole file; a column without values takes its type from the other files.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    InvalidInputError
        For a file that is absent, of no known kind, or damaged.
    SchemaMismatchError
        For a file whose columns or types differ from those of the first.
    """
    import pyarrow as pa

    tables = [_read_file(path, missing) for path in paths]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        if table.column_names != tables[0].column_names:
            raise SchemaMismatchError(
                f"the columns of {str(path)!r} are not those of {str(paths[0])!r}",
                hint=f"{', '.join(table.column_names)}\n"
                f"against {', '.join(tables[0].column_names)}",
            )
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        names = ", ".join(repr(str(path)) for path in paths)
        raise SchemaMismatchError(f"column types differ between {names}: {error}") from error
