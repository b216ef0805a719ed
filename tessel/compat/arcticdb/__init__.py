"""ArcticDB's names over ordinary Tessel stores: change the import, and the program runs.

::

    import tessel.compat.arcticdb as adb

    library = adb.Arctic("data/markets").create_library("trades")
    library.write("aapl", frame)
    q = adb.QueryBuilder()
    q = q[q.price > 3]
    q["notional"] = q.price * q.size
    library.read("aapl", query_builder=q).data

A library is a Tessel store, ``library.store``, in a folder under the place of the ``Arctic``; every
other part of Tessel works on it. A query builder makes a :class:`tessel.QueryBuilder`. A missing
value takes part in conditions as it does in pandas: nothing equals it, and everything differs.

What is different
-----------------
* Versions number the commits of a library, from 1, not those of a symbol from 0. ``as_of`` takes
  such a number, a negative one (-1 is the newest version of the symbol), a snapshot, or a
  ``datetime`` (without a zone: UTC). ``VersionedItem.version`` is the version that changed the
  symbol last.
* A snapshot is a tag: it holds all symbols of the library, and its name is never used again.
* ``prune_previous_versions`` changes nothing: versions go for all symbols of a store together,
  by ``library.store.expire`` and ``gc``. Single versions are not deleted.
* Nothing is pickled: ``write_pickle`` and values that are no tables are refused. Metadata are JSON
  and times.
* Staged rows are known to the ``Library`` object that staged them; another one finalizes them by
  the results of ``stage``, which can be sent to it.
* A name that does not exist is always an error, in ``columns=`` as well.
* A time index is in order: ``validate_index=False`` writes other rows without a time index.
* Errors are those of Tessel; the names in :mod:`tessel.compat.arcticdb.exceptions` stand for them.
"""

from __future__ import annotations

from tessel.compat.arcticdb import exceptions
from tessel.compat.arcticdb.arctic import Arctic
from tessel.compat.arcticdb.exceptions import ErrorCategory, ErrorCode
from tessel.compat.arcticdb.expressions import col, where
from tessel.compat.arcticdb.items import (
    DataError,
    DeleteRequest,
    LibraryOptions,
    MergeAction,
    MergeStrategy,
    OutputFormat,
    ReadInfoRequest,
    ReadRequest,
    StagedDataFinalizeMethod,
    StageResult,
    SymbolDescription,
    SymbolVersion,
    UpdatePayload,
    VersionedItem,
    VersionedItemWithJoin,
    VersionInfo,
    VersionRequestType,
    WriteMetadataPayload,
    WritePayload,
)
from tessel.compat.arcticdb.library import Library
from tessel.compat.arcticdb.query import (
    LazyDataFrame,
    LazyDataFrameAfterJoin,
    LazyDataFrameCollection,
    QueryBuilder,
    concat,
)

__all__ = [
    "Arctic",
    "DataError",
    "DeleteRequest",
    "ErrorCategory",
    "ErrorCode",
    "LazyDataFrame",
    "LazyDataFrameAfterJoin",
    "LazyDataFrameCollection",
    "Library",
    "LibraryOptions",
    "MergeAction",
    "MergeStrategy",
    "OutputFormat",
    "QueryBuilder",
    "ReadInfoRequest",
    "ReadRequest",
    "StageResult",
    "StagedDataFinalizeMethod",
    "SymbolDescription",
    "SymbolVersion",
    "UpdatePayload",
    "VersionInfo",
    "VersionRequestType",
    "VersionedItem",
    "VersionedItemWithJoin",
    "WriteMetadataPayload",
    "WritePayload",
    "col",
    "concat",
    "exceptions",
    "where",
]
