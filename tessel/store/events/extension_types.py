"""Arrow types of our own: plain storage that says by itself what it means.

They are registered with Arrow when this module is first imported, in each process, so that they
survive IPC and files. A reader that does not know them sees the storage, with the name of the type
in the metadata of the field. No parameter is ever added to one: a new meaning is a new type.

A :class:`Reference` is a component's value that says where its data are, held elsewhere. Frames of
a camera, scans, long recordings: an event says which object they are in and which bytes, and a
:class:`~tessel.store.events.reference_reader.ReferenceReader` fetches them when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.errors import InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.errors.root import without_secrets
from tessel.lazy import dataclass


class OwnType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """An extension type without parameters: one storage, one name."""

    name: ClassVar[str]
    storage: ClassVar[pa.DataType]

    def __init__(self) -> None:
        super().__init__(self.storage, self.name)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Self:
        if storage != cls.storage or serialized:
            raise ValueError(f"a column is said to be {cls.name}, and holds {storage}")
        return cls()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def __eq__(self, other: object) -> bool:
        named = isinstance(other, pa.BaseExtensionType)
        return named and other.extension_name == self.name  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.name)


class EventIdType(OwnType):
    """Event ids: time of logging in ns and a counter, both big endian."""

    name = "tessel.event_id"
    storage = pa.binary(16)


class EntityPathType(OwnType):
    """Paths of entities, such as ``robot/arm``."""

    name = "tessel.entity_path"
    storage = pa.string()


class ComponentNameType(OwnType):
    """Names of components."""

    name = "tessel.component"
    storage = pa.string()


class ReferenceType(OwnType):
    """Data held elsewhere: an object, bytes of it, and their CRC-32C where it is known."""

    name = "tessel.reference"
    storage = pa.struct(
        [
            ("uri", pa.string()),
            ("offset", pa.int64()),
            ("length", pa.int64()),
            ("checksum", pa.uint32()),
        ]
    )

    def __arrow_ext_scalar_class__(self) -> type[pa.ExtensionScalar]:
        return ReferenceScalar


class ReferenceScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One reference; ``as_py`` gives it as one."""

    def as_py(self, **options: Any) -> Any:
        """Return the :class:`~tessel.store.events.Reference`, or None."""
        return None if self.value is None else Reference(**self.value.as_py(**options))


def register_own_types() -> None:
    """Register the types with Arrow, those that are not yet: for a second import of this module."""
    for own in OwnType.__subclasses__():
        try:
            pa.register_extension_type(own())
        except pa.ArrowKeyError:  # the module was imported before, and made another class
            pa.unregister_extension_type(own.name)
            pa.register_extension_type(own())


register_own_types()


# --- references -----------------------------------------------------------------------------------

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

    Raises InvalidInputError for a reference without a URI or an offset, or with numbers that cannot
    be.
    """
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    uri, offset, length, _ = storage.flatten()  # with the nulls of the whole
    there = storage.is_valid()
    size = pc.binary_length(uri)
    none = arrow_scalar(0)
    length = pc.coalesce(length, none)
    end = pc.subtract(arrow_scalar(_MOST_OFFSET), pc.max_element_wise(length, none))
    right = (
        pc.and_(pc.greater(size, none), pc.less_equal(size, arrow_scalar(_MOST_URI_BYTES))),
        pc.and_(pc.greater_equal(offset, none), pc.less_equal(offset, end)),
        pc.greater_equal(length, none),
    )
    for each in right:
        if pc.any(pc.and_(there, pc.invert(pc.coalesce(each, arrow_scalar(False))))).as_py():
            raise InvalidInputError(
                f"component {component!r} has a reference that is none",
                hint="make them of Reference(uri, offset, length)",
                component=component,
            )
