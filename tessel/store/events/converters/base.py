"""What a converter is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

__all__ = ["Converter"]


class Converter(ABC):
    """Makes values of one type into values of another, or of another unit.

    It has no state, and any number of threads call it at once. A subclass has a ``name``, and is
    registered with :func:`register_converter`.

    Attributes
    ----------
    name
        By which it is asked for.
    by_name_only
        Whether it is passed over where a type is asked for: it changes what values mean.
    """

    name: ClassVar[str]
    by_name_only: ClassVar[bool] = False

    @abstractmethod
    def makes(self, held: pa.DataType) -> Sequence[pa.DataType]:
        """Return the types that it makes of a type; none where it takes no such values.

        The first is the one made where the converter is asked for by its name.
        """

    @abstractmethod
    def convert(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return as many values of a type that :meth:`makes` said; a missing one stays missing."""
