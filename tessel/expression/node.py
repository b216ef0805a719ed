"""What an expression is: an immutable tree of small operators with a digest as its identity.

An operator is a class derived from `Expression`, which makes it a frozen dataclass and registers it
under its name: ``class Abs(Unary, name="abs")``. Its annotations say what its fields are:
``Expression`` and ``tuple[Expression, ...]`` are operands, ``ValueSet`` and ``Regex`` are the two
leaves that are no values themselves, anything else is a parameter of plain JSON. From that, the
digest, the JSON form, the text call and the traversal follow; a new operator states only its type
rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, dataclass_transform

from tessel.errors import (
    ArgumentCountError,
    ExpressionDepthError,
    ExpressionTypeError,
    InvalidInputError,
    UnicodeTextError,
)
from tessel.errors.arguments import checks_arguments
from tessel.expression.methods import ExpressionMethods
from tessel.expression.printing import Piece, Sub, limited_text
from tessel.expression.registry import register
from tessel.expression.schema import TableSchema
from tessel.expression.types import Operand, Signature
from tessel.lazy import dataclass
from tessel.options import LEAST_LIMIT, current

try:
    from _blake2 import blake2b  # that of hashlib, which loads OpenSSL as well: 3 ms
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    import pyarrow as pa

    from tessel.expression.values import Value

MAX_TEXT_OPERATORS = 200_000
"""Above this many operators in the written-out tree, ``str`` shortens the text with ``…``."""

ATOM = 14
"""Precedence of what never needs parentheses. The others follow Python's table."""


class Leaf(Protocol):
    """What a digest can be asked of."""

    @property
    def digest(self) -> bytes:
        """The identity: 16 bytes."""


class FieldKind(NamedTuple):
    """One field of an operator: its name, what it holds, whether a call must give it."""

    name: str
    kind: str
    required: bool


_KINDS = {
    "Expression": "operand",
    "tuple[Expression, ...]": "operands",
    "ValueSet": "values",
    "Regex": "regex",
}


_layouts: dict[type, tuple[FieldKind, ...]] = {}


def layout(cls: type[Expression]) -> tuple[FieldKind, ...]:
    """Return the fields of an operator class, in order, with their kinds."""
    found = _layouts.get(cls)
    if found is None:
        found = tuple(
            FieldKind(
                field.name, _KINDS.get(str(field.type), "parameter"), field.default is MISSING
            )
            for field in fields(cls)  # type: ignore[arg-type]
        )
        _layouts[cls] = found
    return found


@checks_arguments
@dataclass_transform(frozen_default=True, eq_default=False)
class Expression(ExpressionMethods):
    """A value for every row of a table, described but not yet computed.

    Made by `col`, `lit`, `when`, `where`, `coalesce` and `parse`, and combined with Python's
    operators and the methods below. Immutable. ``==`` builds an expression like ``<`` does;
    `equals` compares two expressions as Python values.

    Attributes
    ----------
    name
        The operator's name: in JSON, and as a function in text.
    precedence
        How tightly its text form binds; Python's order.
    """

    name: ClassVar[str]
    precedence: ClassVar[int] = ATOM
    _depth: int
    _size: int
    _digest: bytes | None
    _names: frozenset[str]

    def __init__(self, *_: object, **__: object) -> None:
        raise ArgumentCountError(
            f"an {type(self).__name__} is not made by its class",
            hint='ts.col("price"), ts.lit(1), ts.when(...) and ts.parse("price * 2") make one',
        )

    def __init_subclass__(cls, **facts: Any) -> None:
        """Make a subclass a frozen dataclass with class attributes; register one with a name."""
        super().__init_subclass__()
        for fact, value in facts.items():
            setattr(cls, fact, value)
        dataclass(frozen=True, eq=False, repr=False)(cls)
        if "name" in facts:
            register(cls)

    def __post_init__(self) -> None:
        depth, size = 0, 1
        for child in self.children:
            if not isinstance(child, Expression):
                raise ExpressionTypeError(
                    f"{self.name} takes expressions, not {type(child).__name__}",
                    hint="wrap plain values with lit(...)",
                )
            depth = max(depth, child._depth)
            size += child._size
        self._seal(depth + 1, size)
        self.check()

    def _seal(self, depth: int, size: int) -> None:
        if depth > LEAST_LIMIT and depth > current().max_depth:
            raise ExpressionDepthError.exceeded(depth, current().max_depth)
        object.__setattr__(self, "_depth", depth)
        object.__setattr__(self, "_size", size)
        object.__setattr__(self, "_digest", None)

    # --- what an operator states ------------------------------------------------------------------

    def check(self) -> None:
        """Raise where the fields mean nothing, whatever the columns are."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operator's type rule: what operands are cast to, and what results."""
        raise AssertionError(f"{self.name} states no type rule")

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Return the operator's values.

        Parameters
        ----------
        values
            Arrow arrays of one length, or scalars that stand in every row, already cast to the
            inputs of the type rule.
        result
            The type that the type rule gives.

        Returns
        -------
        Value
            An array or, where all values are scalars, a scalar.
        """
        raise AssertionError(f"{self.name} has no values of its own")

    def fitted(self, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return the operands with literals read as their neighbours demand."""
        return operands

    def pieces(self) -> Iterable[Piece]:
        """Return the text form: strings, and operands with the precedence they need."""
        return self._call(self.name)

    def label(self) -> Iterable[Piece]:
        """Return the form that plans show: ``NAME(operand, …)`` unless an operator says else."""
        return self._call(self.name.upper())

    def _call(self, word: str, first: int = 0) -> Iterable[Piece]:
        """Return a call with the fields from one on as its arguments."""
        yield f"{word}("
        separator = ""
        for field in layout(type(self))[first:]:
            value = getattr(self, field.name)
            for part in value if field.kind == "operands" else (value,):
                yield separator
                yield Sub(part) if isinstance(part, Expression) else argument_text(part)
                separator = ", "
        yield ")"

    @classmethod
    def of(cls, *arguments: object) -> Self:
        """Make the operator from arguments in the order of its fields, as a text call does."""
        from tessel.expression.leaves import arguments_for

        return cls(*arguments_for(cls, arguments))

    # --- structure --------------------------------------------------------------------------------

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in order."""
        found: list[Expression] = []
        for field in layout(type(self)):
            if field.kind == "operand":
                found.append(getattr(self, field.name))
            elif field.kind == "operands":
                found.extend(getattr(self, field.name))
        return tuple(found)

    @property
    def depth(self) -> int:
        """Operators on the longest path to a leaf."""
        return self._depth

    @property
    def digest(self) -> bytes:
        """The identity: 128 bits of BLAKE2b over the operator and its operands' digests."""
        if self._digest is None:
            for node in post_order(self, known=lambda node: node._digest is not None):
                object.__setattr__(node, "_digest", _digest_of(node))
        assert self._digest is not None
        return self._digest

    def equals(self, other: object) -> bool:
        """Say whether two expressions are the same: the same operators on the same operands.

        Examples
        --------
        >>> (ts.col("price") > 1).equals(ts.parse("price > 1"))
        True
        """
        return isinstance(other, Expression) and self.digest == other.digest

    def __hash__(self) -> int:
        return int.from_bytes(self.digest[:8], "little", signed=True)

    def columns(self) -> frozenset[str]:
        """Return the names of all columns that the expression reads.

        Examples
        --------
        >>> sorted((ts.col("price") * ts.col("qty")).columns())
        ['price', 'qty']
        """
        from tessel.expression.leaves import Column

        # Asked for every unit of a query; an expression does not change.
        if "_names" not in self.__dict__:
            for node in post_order(self, known=lambda node: "_names" in node.__dict__):
                if isinstance(node, Column):
                    found = frozenset((node.column,))
                else:
                    below: list[frozenset[str]] = [child._names for child in node.children]
                    largest = max(below, key=len, default=frozenset())
                    others = all(names <= largest for names in below)
                    found = largest if others else largest.union(*below)
                object.__setattr__(node, "_names", found)
        return self._names

    def result_type(self, schema: TableSchema) -> pa.DataType:
        """Return the type of the result for a table of this schema.

        Raises
        ------
        ColumnNotFoundError
            For a column that the schema does not have, with the nearest name.
        ExpressionTypeError
            Where operands do not go together; names them, their types and a way out.

        Examples
        --------
        >>> (ts.col("price") * ts.col("qty")).result_type(store.schema("trades"))
        DataType(double)
        """
        from tessel.expression.checking import check_types

        return check_types(self, schema)

    # --- forms ------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self._size > MAX_TEXT_OPERATORS:
            return limited_text(self, 10_000)
        return limited_text(self, None)

    def __repr__(self) -> str:
        return f"<expression {limited_text(self, 500)}>"

    def to_json(self) -> dict[str, Any]:
        """Return the expression as plain data: the JSON form of its `ExpressionContext`.

        Examples
        --------
        >>> sorted(ts.col("price").to_json())
        ['columns', 'format', 'nodes', 'regexes', 'root', 'value_sets', 'values']
        """
        from tessel.expression.context import ExpressionContext

        return ExpressionContext.of(self).to_json()

    @staticmethod
    def from_json(data: object) -> Expression:
        """Rebuild an expression from `to_json`; anything else raises ``PlanFormatError``.

        Examples
        --------
        >>> plain = ts.col("price").is_missing().to_json()
        >>> ts.Expression.from_json(plain)
        <expression price is missing>
        """
        from tessel.expression.context import ExpressionContext

        return ExpressionContext.from_json(data).expression()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Expression.from_json, (self.to_json(),))

    def __copy__(self) -> Expression:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Expression:
        return self


def argument_text(value: object) -> str:
    """Write a parameter, value set or regex as it stands in a text call."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def hashed(content: bytes) -> bytes:
    """Return 128 bits that tell bytes apart."""
    return blake2b(content, digest_size=16).digest()


def _digest_of(node: Expression) -> bytes:
    hasher = blake2b(digest_size=16)
    hasher.update(framed(node.name.encode()))
    for field in layout(type(node)):
        value = getattr(node, field.name)
        if field.kind == "parameter":
            hasher.update(b"p" + framed(json.dumps(value, ensure_ascii=True).encode()))
        elif field.kind == "operands":
            hasher.update(b"t" + len(value).to_bytes(8, "little"))
            for child in value:
                hasher.update(child.digest)
        else:
            hasher.update(b"e" if field.kind == "operand" else b"l")
            hasher.update(value.digest)
    return hasher.digest()


def framed(data: bytes) -> bytes:
    """Return bytes behind their length, as digests take what may have any."""
    return len(data).to_bytes(8, "little") + data


def post_order(
    root: Expression, known: Callable[[Expression], bool] | None = None
) -> Iterator[Expression]:
    """Yield every distinct node object under ``root`` once, operands before their operator.

    Nodes that are ``known`` are left out, and what is under them alone.
    """
    seen: set[int] = set()
    stack: list[tuple[Expression, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen and not (known is not None and known(node)):
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def require_text(value: object, what: str) -> None:
    """Raise ``InvalidInputError`` where a parameter that must be text is not."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be text, not {type(value).__name__}")
    UnicodeTextError.require(value, what)
