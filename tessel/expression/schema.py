"""What is known of a table before any of its data: its columns and which of them is the index."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.errors import ColumnNotFoundError, DuplicateColumnError, PlanFormatError, repeated
from tessel.errors.arguments import checks_arguments, names_ours, refuses
from tessel.lazy import dataclass


@checks_arguments
@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table, in order, and the name of its time index if it has one.

    Attributes
    ----------
    arrow
        Names and types. Field metadata carries no meaning here; nullability is always true.
    index
        Name of the time index: a non-decreasing column without missing values. None without one.

    Raises
    ------
    DuplicateColumnError
        When two columns have one name.
    ColumnNotFoundError
        When the index is not one of the columns.
    """

    arrow: pa.Schema
    index: str | None = None

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs
        __getattr__ = names_ours("schema")
        __getitem__ = refuses("a schema is asked by name", 'schema.type_of("price"), schema.names')

    def __post_init__(self) -> None:
        names = self.arrow.names
        if len(set(names)) != len(names):
            twice = repeated(names)
            raise DuplicateColumnError(
                f"two columns are named {twice!r}", hint="rename one of them", column=twice
            )
        if self.index is not None and self.index not in names:
            raise ColumnNotFoundError.for_name(self.index, names, where="the table (as its index)")

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return list(self.arrow.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._place(name) >= 0

    def _place(self, name: str) -> int:
        """Return where a column stands, looked up without a list of all names; -1 for none."""
        try:
            return int(self.arrow.get_field_index(name))
        except UnicodeEncodeError:  # a name that no column can have
            return -1

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column; an unknown name raises with the nearest match."""
        at = self._place(name)
        if at < 0:
            self.require([name])
        return self.arrow.field(at).type

    def require(self, names: Iterable[str], *, where: str | None = None) -> None:
        """Raise ``ColumnNotFoundError`` for the first of ``names`` that is not a column."""
        for name in names:
            if name not in self:
                raise ColumnNotFoundError.for_name(name, self.names, where=where)

    def select(self, names: Iterable[str]) -> TableSchema:
        """Return the schema with these columns only, in this order; the index may fall away."""
        wanted = list(names)
        self.require(wanted)
        fields = [self.arrow.field(name) for name in wanted]
        return TableSchema(pa.schema(fields), self.index if self.index in wanted else None)

    def with_column(self, name: str, type_: pa.DataType) -> TableSchema:
        """Return the schema with a column added at the end, or replaced where it stands.

        Replacing the index column takes away its role: nothing promises the new values an order.
        """
        index = None if name == self.index else self.index
        at = self._place(name)
        if at >= 0:
            return TableSchema(self.arrow.set(at, pa.field(name, type_)), index)
        return TableSchema(self.arrow.append(pa.field(name, type_)), index)

    def with_columns(self, types: Mapping[str, pa.DataType]) -> TableSchema:
        """Return the schema with columns added or replaced as :meth:`with_column` does with one."""
        new = [name for name in types if name not in self]
        fields = [
            field.with_type(types[field.name]) if field.name in types else field
            for field in self.arrow
        ]
        fields += [pa.field(name, types[name]) for name in new]
        return TableSchema(pa.schema(fields), None if self.index in types else self.index)

    def of_columns(self, names: Iterable[str], made: Mapping[str, pa.DataType]) -> TableSchema:
        """Return the schema of some columns, those of ``made`` in front of its own.

        It stands for ``self.with_columns(made)`` where an expression reads few of many columns.
        Where one is unknown it is that schema, so that an error finds the nearest of all names.
        """
        fields = []
        for name in names:
            if name not in made and name not in self:
                return self.with_columns(made)
            fields.append((name, made[name] if name in made else self.type_of(name)))
        return TableSchema(pa.schema(fields))

    def rename(self, names: Mapping[str, str]) -> TableSchema:
        """Return the schema with new names for old ones; unknown old names raise.

        All are renamed at once, and the index keeps its role.
        """
        self.require(names)
        fields = [field.with_name(names.get(field.name, field.name)) for field in self.arrow]
        index = None if self.index is None else names.get(self.index, self.index)
        return TableSchema(pa.schema(fields), index)

    def empty(self) -> pa.Table:
        """Return a table of this schema without rows."""
        return empty_table(self.arrow)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as plain data: its Arrow IPC message in base64, and the index."""
        message = self.arrow.remove_metadata().serialize().to_pybytes()
        return {"arrow": binascii.b2a_base64(message, newline=False).decode(), "index": self.index}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableSchema:
        """Rebuild a schema from its plain data; raises ``PlanFormatError`` on anything else."""
        try:
            message = binascii.a2b_base64(data["arrow"], strict_mode=True)
            arrow = pa.ipc.read_schema(pa.py_buffer(message))
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise PlanFormatError(f"not the plain form of a table schema: {error}") from error
        index = data.get("index")
        if index is not None and not isinstance(index, str):
            raise PlanFormatError(f"the index of a table schema is text or null, not {index!r}")
        return cls(arrow, index)
