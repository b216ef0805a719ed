"""Queries that know what they read, and run when they are collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tessel.compat.arcticdb.items import (
    DataError,
    ReadRequest,
    VersionedItem,
    VersionedItemWithJoin,
)
from tessel.compat.arcticdb.query import QueryBuilder

if TYPE_CHECKING:
    from tessel.compat.arcticdb.reading import Reads


class LazyDataFrame(QueryBuilder):
    """A read of a symbol that is not run yet; the verbs of a query builder change it."""

    def __init__(self, library: Reads, request: ReadRequest) -> None:
        super().__init__()
        self._library = library
        self._request = request
        if request.query_builder is not None:
            self.then(request.query_builder)

    def _asked(self) -> ReadRequest:
        """Return what ``read`` takes for it."""
        return self._request._replace(query_builder=self)

    def collect(self) -> VersionedItem:
        """Read the rows."""
        item: VersionedItem = self._library.read(**self._asked()._asdict())
        return item


class LazyDataFrameCollection(QueryBuilder):
    """Several such reads, of one library; what is added here is done to each."""

    def __init__(self, frames: Iterable[LazyDataFrame]) -> None:
        super().__init__()
        self._frames = list(frames)

    def split(self) -> list[LazyDataFrame]:
        """Return the reads one by one, with what was added to all of them."""
        return [LazyDataFrame(each._library, self._whole(each)) for each in self._frames]

    def collect(self) -> list[VersionedItem | DataError]:
        """Read the rows of each."""
        if not self._frames:
            return []
        library: Any = self._frames[0]._library
        items: list[VersionedItem | DataError] = library.read_batch(self._requests())
        return items

    def _requests(self) -> list[ReadRequest]:
        """Return what ``read`` takes for each."""
        return [self._whole(each) for each in self._frames]

    def _whole(self, frame: LazyDataFrame) -> ReadRequest:
        return frame._asked()._replace(query_builder=QueryBuilder().then(frame).then(self))


class LazyDataFrameAfterJoin(QueryBuilder):
    """Several reads put one after the other, and what is done to all of their rows."""

    def __init__(self, frames: LazyDataFrameCollection, join: str) -> None:
        super().__init__()
        self._frames = frames
        self.concat(join)

    def collect(self) -> VersionedItemWithJoin:
        """Read the rows."""
        library: Any = self._frames._frames[0]._library
        item: VersionedItemWithJoin = library.read_batch_and_join(self._frames._requests(), self)
        return item


def concat(
    lazy_dataframes: list[LazyDataFrame] | LazyDataFrameCollection, join: str = "outer"
) -> LazyDataFrameAfterJoin:
    """Put the rows of several reads one after the other.

    ``join`` is ``"outer"`` for the columns of any of them, or ``"inner"`` for those of all.
    """
    if not isinstance(lazy_dataframes, LazyDataFrameCollection):
        lazy_dataframes = LazyDataFrameCollection(lazy_dataframes)
    return LazyDataFrameAfterJoin(lazy_dataframes, join)
