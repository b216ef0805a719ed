"""Arrow types of our own: plain storage that says by itself what it means.

They are registered with Arrow when this module is first imported, in each process, so that they
survive IPC and files. A reader that does not know them sees the storage, with the name of the type
in the metadata of the field. No parameter is ever added to one: a new meaning is a new type.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import pyarrow as pa


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
        from tessel.store.events.reference import Reference

        return None if self.value is None else Reference(**self.value.as_py(**options))


_OWN: tuple[type[OwnType], ...] = (
    ComponentNameType,
    EntityPathType,
    EventIdType,
    ReferenceType,
)


def register_own_types() -> None:
    """Register the types with Arrow, those that are not yet: for a second import of this module."""
    for own in _OWN:
        try:
            pa.register_extension_type(own())
        except pa.ArrowKeyError:  # the module was imported before, and made another class
            pa.unregister_extension_type(own.name)
            pa.register_extension_type(own())


register_own_types()
