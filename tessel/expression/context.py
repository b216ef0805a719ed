"""The name-referenced form of an expression: a flat mapping that evaluation and JSON work on.

Nodes refer to their operands by name, and a name is the digest of what it names. Equal
sub-expressions therefore have one name and are computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tessel.cached import cached
from tessel.errors import (
    LimitError,
    NameNotFoundError,
    PlanFormatError,
    TesselError,
    UnicodeTextError,
)
from tessel.expression import literal_codec
from tessel.expression.leaves import Column, Literal, Regex, ValueSet
from tessel.expression.node import Expression, layout, post_order
from tessel.expression.printing import limited_label
from tessel.expression.registry import operator_class
from tessel.lazy import dataclass
from tessel.options import LEAST_LIMIT, current

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "tessel.expression/1"
"""The mark of the JSON form."""

DISPLAY_CHARACTERS = 2_000
"""Display names are cut after so many characters."""


@dataclass(frozen=True, eq=False)
class ExpressionContext:
    """An expression as names: what is computed, from what, and the one name that is the answer.

    Attributes
    ----------
    root
        Name of the node whose values are the expression's.
    columns
        Names of columns by name. These names are the 32 hexadecimal digits of a digest.
    """

    root: str
    columns: Mapping[str, str]
    _expressions: Mapping[str, Expression]

    @staticmethod
    def of(expression: Expression | ExpressionContext) -> ExpressionContext:
        """Return the context of an expression, which is made once for each."""
        if isinstance(expression, ExpressionContext):
            return expression
        known: ExpressionContext | None = expression.__dict__.get("_context")
        if known is None:
            known = ExpressionContext._made(expression)
            object.__setattr__(expression, "_context", known)
        return known

    @staticmethod
    def _made(expression: Expression) -> ExpressionContext:
        expressions = {node.digest.hex(): node for node in post_order(expression)}
        columns = {n: node.column for n, node in expressions.items() if isinstance(node, Column)}
        if len(expressions) > LEAST_LIMIT and len(expressions) > current().max_nodes:
            raise LimitError.exceeded(
                "the expression",
                len(expressions),
                "columns, literals and operators",
                option="max_nodes",
                limit=current().max_nodes,
            )
        return ExpressionContext(
            expression.digest.hex(), MappingProxyType(columns), MappingProxyType(expressions)
        )

    @property
    def order(self) -> tuple[str, ...]:
        """The names of all nodes, columns and values, operands before their operators."""
        return tuple(self._expressions)

    def expression(self, name: str | None = None) -> Expression:
        """Return the expression of a name; without one, of the root."""
        return self._expressions[self.root if name is None else name]

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of a node's operands, in order."""
        return self._children[name]

    @cached
    def type_memo(self) -> dict[tuple[pa.DataType, ...], Any]:
        """What `node_types` found for columns of these types."""
        return {}

    @cached
    def _children(self) -> dict[str, tuple[str, ...]]:
        return {
            name: tuple(child.digest.hex() for child in node.children)
            for name, node in self._expressions.items()
        }

    def display_name(self, name: str | None = None) -> str:
        """Return a node's name for people: ``(Column["volume"] LT Int64(1000))``."""
        return limited_label(self.expression(name), DISPLAY_CHARACTERS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpressionContext) and self.root == other.root

    def __hash__(self) -> int:
        return int(self.root[:15], 16)

    def __str__(self) -> str:
        return self.display_name()

    def __repr__(self) -> str:
        return f"<ExpressionContext {limited_label(self.expression(), 500)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ExpressionContext.from_json, (self.to_json(),))

    # --- JSON -------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the context as plain data for ``json.dumps``."""
        values: dict[str, Any] = {}
        value_sets: dict[str, Any] = {}
        regexes: dict[str, Any] = {}
        nodes: dict[str, Any] = {}
        for name, node in self._expressions.items():
            if isinstance(node, Literal):
                values[name] = [node.kind, node.content]
            elif not isinstance(node, Column):
                nodes[name] = {"operator": node.name}
                for field in layout(type(node)):
                    value = getattr(node, field.name)
                    if isinstance(value, ValueSet):
                        value_sets[value.digest.hex()] = list(map(list, value.pairs))
                    elif isinstance(value, Regex):
                        regexes[value.digest.hex()] = value.pattern
                    nodes[name][field.name] = _reference(field.kind, value)
        return {
            "format": FORMAT,
            "root": self.root,
            "columns": dict(self.columns),
            "values": values,
            "value_sets": value_sets,
            "regexes": regexes,
            "nodes": nodes,
        }

    @staticmethod
    def from_json(data: object) -> ExpressionContext:
        """Rebuild a context, checking everything; ``PlanFormatError`` where it is not one."""
        try:
            return ExpressionContext.of(_Reader(data).expression())
        except PlanFormatError:
            raise
        except TesselError as error:
            raise PlanFormatError(
                f"the JSON form of an expression holds one that cannot be made: {error.message}",
                hint=error.hint,
            ) from error


def _reference(kind: str, value: Any) -> Any:
    if kind == "operands":
        return [child.digest.hex() for child in value]
    return value if kind == "parameter" else value.digest.hex()


def _refuse(what: str) -> PlanFormatError:
    return PlanFormatError(
        f"not the JSON form of an expression: {what}",
        hint="give what Expression.to_json() returned, unchanged",
    )


class _Reader:
    """Reads the JSON form; operators are made once all their operands are."""

    def __init__(self, data: object) -> None:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise _refuse(f"it is not an object with format {FORMAT!r}")
        self._root = self._text(data.get("root"), "root")
        self._nodes = self._section(data, "nodes", dict)
        self._sets = {
            name: ValueSet(tuple(self._pair(pair) for pair in pairs))
            for name, pairs in self._section(data, "value_sets", list).items()
        }
        self._regexes = {n: Regex(p) for n, p in self._section(data, "regexes", str).items()}
        self._made: dict[str, Expression] = {}
        for name, column in self._section(data, "columns", str).items():
            self._keep(name, Column(column))
        for name, pair in self._section(data, "values", list).items():
            self._keep(name, self._literal(pair))
        leaves: dict[str, ValueSet | Regex] = {**self._sets, **self._regexes}
        for name, leaf in leaves.items():
            if leaf.digest.hex() != name:
                raise _refuse(f"{name!r} does not name what stands there")

    def expression(self) -> Expression:
        """Make the root, operands first, without recursion."""
        stack = [self._root]
        opened: set[str] = set()
        while stack:
            name = stack[-1]
            if name in self._made:
                stack.pop()
                continue
            waiting = [child for child in self._operands(name) if child not in self._made]
            if not waiting:
                self._keep(name, self._operator(name))
            elif name in opened:
                raise _refuse(f"{name!r} is an operand of itself")
            else:
                opened.add(name)
                stack.extend(reversed(waiting))
        return self._made[self._root]

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._nodes:
            raise _refuse(f"there is no node {name!r}")
        entry: dict[str, Any] = self._nodes[name]
        operator = entry.get("operator")
        if not isinstance(operator, str):
            raise _refuse(f"there is no operator {operator!r}")
        try:
            cls = operator_class(operator)
        except NameNotFoundError:
            raise _refuse(f"there is no operator {operator!r}") from None
        expected = {"operator", *(field.name for field in layout(cls))}
        if set(entry) != expected:
            raise _refuse(f"{operator} has the fields {', '.join(sorted(expected))}")
        return entry

    def _operands(self, name: str) -> Iterator[str]:
        entry = self._entry(name)
        for field in layout(operator_class(entry["operator"])):
            value = entry[field.name]
            if field.kind == "operand":
                yield self._text(value, field.name)
            elif field.kind == "operands":
                if not isinstance(value, list):
                    raise _refuse(f"{field.name} is not a list")
                yield from (self._text(item, field.name) for item in value)

    def _operator(self, name: str) -> Expression:
        entry = self._entry(name)
        cls = operator_class(entry["operator"])
        values: list[Any] = []
        for field in layout(cls):
            value = entry[field.name]
            match field.kind:
                case "operand":
                    values.append(self._made[value])
                case "operands":
                    values.append(tuple(self._made[item] for item in value))
                case "values" | "regex":
                    values.append(self._leaf(value, field.kind))
                case _:
                    if not isinstance(value, str | int | float | bool | None):
                        raise _refuse(f"{field.name} is not a plain value")
                    values.append(value)
        return cls(*values)

    def _leaf(self, name: object, kind: str) -> ValueSet | Regex:
        key = self._text(name, "a value set or regex")
        found = self._sets.get(key) if kind == "values" else self._regexes.get(key)
        if found is None:
            raise _refuse(f"there is no value set or regex {key!r}")
        return found

    def _keep(self, name: str, expression: Expression) -> None:
        if expression.digest.hex() != name:
            raise _refuse(f"{name!r} does not name what stands there")
        self._made[name] = expression

    def _literal(self, pair: object) -> Literal:
        return Literal(*self._pair(pair))

    def _pair(self, pair: object) -> tuple[str, str]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _refuse("a value is not a pair of type and text")
        kind, content = self._text(pair[0], "a type"), self._text(pair[1], "a value")
        UnicodeTextError.require(content, "a value")
        literal_codec.check_canonical(kind, content)
        return kind, content

    @staticmethod
    def _section(data: dict[str, Any], key: str, kind: type) -> dict[str, Any]:
        section = data.get(key)
        if not isinstance(section, dict):
            raise _refuse(f"{key} is not an object")
        for name, value in section.items():
            if not isinstance(name, str) or not isinstance(value, kind):
                raise _refuse(f"{key} holds something else than {kind.__name__}")
        return section

    @staticmethod
    def _text(value: object, what: str) -> str:
        if not isinstance(value, str):
            raise _refuse(f"{what} is not text")
        return value
