"""What methods of a library take and give: requests, payloads, descriptions."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from tessel.compat.arcticdb.exceptions import ErrorCategory, ErrorCode, code_of
from tessel.errors import TesselError

if TYPE_CHECKING:
    from tessel.compat.arcticdb.query import QueryBuilder


class OutputFormat(StrEnum):
    """What ``data`` of a ``VersionedItem`` is."""

    PANDAS = "PANDAS"
    PYARROW = "PYARROW"
    POLARS = "POLARS"


StagedDataFinalizeMethod = Enum("StagedDataFinalizeMethod", "WRITE APPEND")
"""Whether staged rows replace those of a symbol or come behind them."""


class MergeAction(StrEnum):
    """What becomes of a row: of the symbol that has an equal in the source, or of the source."""

    DO_NOTHING = auto()
    UPDATE = auto()
    INSERT = auto()


class MergeStrategy(NamedTuple):
    """What becomes of rows that are in both, and of those that are in the source alone."""

    matched: MergeAction | str = MergeAction.UPDATE
    not_matched_by_target: MergeAction | str = MergeAction.INSERT


class LibraryOptions(NamedTuple):
    """Options of a library.

    Attributes
    ----------
    dynamic_schema
        Whether an append or update may bring new columns and wider types.
    dedup, rows_per_segment, columns_per_segment, encoding_version
        Taken, and without effect: how rows are stored is chosen by Tessel.
    """

    dynamic_schema: bool = False
    dedup: bool = False
    rows_per_segment: int = 100_000
    columns_per_segment: int = 127
    encoding_version: Any = None


class VersionedItem(NamedTuple):
    """A symbol at a version: its rows as ``data`` where they were read.

    Attributes
    ----------
    version
        The version of the library that changed the symbol last.
    timestamp
        When it landed, nanoseconds since 1970, UTC; None where it has expired.
    """

    symbol: str
    library: str
    data: Any
    version: int
    metadata: Any = None
    host: str | None = None
    timestamp: int | None = None

    def __repr__(self) -> str:
        data = "n/a" if self.data is None else str(type(self.data))
        return (
            f"VersionedItem(symbol={self.symbol!r}, library={self.library!r}, data={data}, "
            f"version={self.version}, metadata={self.metadata!r}, host={self.host!r}, "
            f"timestamp={self.timestamp})"
        )


class VersionedItemWithJoin(NamedTuple):
    """Rows of several symbols, with what was read of each."""

    versions: list[VersionedItem]
    data: Any


class DataError(NamedTuple):
    """What went wrong with one symbol of a batch.

    Attributes
    ----------
    exception
        The error itself.
    version_request_type, version_request_data
        The version that was asked for, where one was read.
    """

    symbol: str
    exception: TesselError
    version_request_type: VersionRequestType | None = None
    version_request_data: Any = None

    @property
    def error_code(self) -> ErrorCode:
        """What the error is."""
        return code_of(self.exception)[0]

    @property
    def error_category(self) -> ErrorCategory:
        """What the error is about."""
        return code_of(self.exception)[1]

    @property
    def exception_string(self) -> str:
        """The text of the error."""
        return str(self.exception)


VersionRequestType = Enum("VersionRequestType", "LATEST SPECIFIC SNAPSHOT TIMESTAMP")
"""How a version was asked for."""


class SymbolVersion(NamedTuple):
    """A symbol and a version that changed it."""

    symbol: str
    version: int

    def __repr__(self) -> str:
        return f"{self.symbol}_v{self.version}"


class VersionInfo(NamedTuple):
    """When a version landed, and the snapshots that show it."""

    date: datetime
    deleted: bool
    snapshots: list[str]


class NameWithDType(NamedTuple):
    """A column and the name of its Arrow type."""

    name: str
    dtype: str


class SymbolDescription(NamedTuple):
    """What is stored under a symbol."""

    columns: tuple[NameWithDType, ...]
    index: tuple[NameWithDType, ...]  # type: ignore[assignment]  # over tuple.index
    index_type: str
    row_count: int
    last_update_time: datetime | None
    date_range: tuple[Any, Any]
    sorted: str


class ReadRequest(NamedTuple):
    """Arguments of ``Library.read``, for a batch."""

    symbol: str
    as_of: Any = None
    date_range: Any = None
    row_range: tuple[int | None, int | None] | None = None
    columns: list[str] | None = None
    query_builder: QueryBuilder | None = None
    output_format: OutputFormat | str | None = None


class ReadInfoRequest(NamedTuple):
    """A symbol and a version, for batches of ``read_metadata`` and ``get_description``."""

    symbol: str
    as_of: Any = None


class DeleteRequest(NamedTuple):
    """A symbol and versions, for ``delete_batch``."""

    symbol: str
    version_ids: list[int]


class WritePayload(NamedTuple):
    """Arguments of ``Library.write`` and ``Library.append``, for a batch."""

    symbol: str
    data: Any
    metadata: Any = None
    index_column: bool = False


class WriteMetadataPayload(NamedTuple):
    """Arguments of ``Library.write_metadata``, for a batch."""

    symbol: str
    metadata: Any


class UpdatePayload(NamedTuple):
    """Arguments of ``Library.update``, for a batch."""

    symbol: str
    data: Any
    metadata: Any = None
    date_range: Any = None
    index_column: bool = False


class StageResult(NamedTuple):
    """Rows that were staged, as plain text that can be sent to whoever finalizes them."""

    symbol: str
    descriptor: str
