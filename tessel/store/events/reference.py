"""Reference: a component's value that says where its data are, held elsewhere.

Frames of a camera, scans, long recordings: an event says which object they are in and which bytes,
and a :class:`~tessel.store.events.reference_reader.ReferenceReader` fetches them when they are
asked for. A reference is a struct of four fields, in a saved recording and to every other reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Self

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.errors.root import without_secrets
from tessel.lazy import dataclass
from tessel.store.events.extension_types import ReferenceType

_MOST_URI_BYTES = 2048
_MOST_OFFSET = 2**63 - 1


@checks_arguments
@dataclass(frozen=True)
class Reference:
    """Bytes of an object that is held elsewhere.

    Attributes
    ----------
    uri
        The object: an absolute path, ``file:///path``, ``s3://bucket/key``, ``gs://…``, ``az://…``,
        ``memory://name/object``.
    offset
        Where its bytes begin.
    length
        How many there are; None for all up to the end of the object.
    checksum
        Their CRC-32C, by which a change is seen; None where it is not known.

    Raises
    ------
    InvalidInputError
        For values that are none.

    Examples
    --------
    >>> recorder.log("camera", {"image": Reference("/data/run7.mp4", 4096, 65_536)}, frame=7)
    """

    uri: str
    offset: int = 0
    length: int | None = None
    checksum: int | None = None

    def __repr__(self) -> str:
        uri = without_secrets(self.uri)
        return f"Reference({uri!r}, {self.offset}, {self.length}, {self.checksum})"

    def __post_init__(self) -> None:
        if not isinstance(self.uri, str) or not 0 < len(self.uri.encode()) <= _MOST_URI_BYTES:
            raise InvalidInputError(
                f"a reference to {without_secrets(str(self.uri))[:80]!r}",
                hint=f"give a path or URI of at most {_MOST_URI_BYTES} bytes",
            )
        numbers = {"offset": self.offset, "length": self.length, "checksum": self.checksum}
        for name, number in numbers.items():
            least_type = name == "offset" or number is not None
            if least_type and (type(number) is not int or number < 0):
                raise InvalidInputError(
                    f"a reference with {name}={number!r}", hint="give a whole number from 0 on"
                )
        if self.offset + (self.length or 0) > _MOST_OFFSET or (self.checksum or 0) >= 1 << 32:
            raise InvalidInputError(f"a reference to bytes that no object has: {self}")

    @classmethod
    def of(cls, uri: str, data: bytes | pa.Buffer, offset: int = 0) -> Self:
        """Return the reference to some bytes that lie at an offset of an object."""
        view = memoryview(data)
        return cls(uri, offset, view.nbytes, int(google_crc32c.value(bytes(view))))

    @classmethod
    def from_struct(cls, values: Mapping[str, Any]) -> Self:
        """Return the reference that a struct of a query's result holds.

        Raises
        ------
        InvalidInputError
            For a struct that is none.
        """
        names = [field.name for field in ReferenceType.storage]
        if set(values) != set(names):
            raise InvalidInputError(f"a reference has {names}, not {sorted(map(str, values))}")
        return cls(**values)


def reference_array(references: Iterable[Reference | None]) -> pa.Array:
    """Return references as an Arrow array."""
    given = list(references)
    for each in given:
        if each is not None and not isinstance(each, Reference):
            raise InvalidInputError(
                f"{without_secrets(repr(each)):.80} is no reference",
                hint="make references of Reference(uri, offset)",
            )
    values = [None if each is None else asdict(each) for each in given]
    return pa.ExtensionArray.from_storage(
        ReferenceType(), arrow_array(values, ReferenceType.storage)
    )


def check_references(component: str, array: pa.Array) -> None:
    """Refuse an array of references one of which is none; null is a missing value.

    Raises
    ------
    InvalidInputError
        For a reference without a URI or an offset, or with numbers that cannot be.
    """
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    uri, offset, length, _ = storage.flatten()  # with the nulls of the whole
    there = storage.is_valid()
    size = pc.binary_length(uri)
    length = pc.coalesce(length, arrow_scalar(0, pa.int64()))
    end = pc.subtract(arrow_scalar(_MOST_OFFSET), pc.max_element_wise(length, 0))
    right = (
        pc.and_(pc.greater(size, 0), pc.less_equal(size, _MOST_URI_BYTES)),
        pc.and_(pc.greater_equal(offset, 0), pc.less_equal(offset, end)),
        pc.greater_equal(length, 0),
    )
    for each in right:
        if pc.any(pc.and_(there, pc.invert(pc.coalesce(each, arrow_scalar(False))))).as_py():
            raise InvalidInputError(
                f"component {component!r} has a reference that is none",
                hint="make them of Reference(uri, offset, length)",
                component=component,
            )
