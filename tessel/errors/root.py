"""The root of all errors, and how one is carried between processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

__all__ = ["TesselError"]


class TesselError(Exception):
    """Root of all errors raised on purpose.

    Parameters
    ----------
    message
        What was asked and what is wrong with it, one line.
    hint
        What to do about it: the nearest match, what exists, a way out.
    detail
        Lines shown between message and hint, such as source text with a caret.
    **attributes
        The facts as plain JSON values, for programs.
    """

    kind: ClassVar[str] = "tessel"

    def __init__(
        self, message: str, *, hint: str | None = None, detail: str | None = None, **attributes: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail
        self.attributes: dict[str, Any] = attributes
        self.context: dict[str, str] = {}

    def with_context(self, **context: str | None) -> Self:
        """Add where it happened (clause, symbol, segment, expression); the innermost wins."""
        for name, value in context.items():
            if value is not None:
                self.context.setdefault(name, value)
        return self

    def __str__(self) -> str:
        lines = [f"[{self.kind}] {self.message}"]
        if self.detail:
            lines += [f"    {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines += [f"  {line}" for line in self.hint.splitlines()]
        lines += [f"  in {name}: {value}" for name, value in self.context.items()]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.to_json(),))

    def to_json(self) -> dict[str, Any]:
        """Return the error as plain data, to be carried between processes as text."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "detail": self.detail,
            "attributes": json.loads(json.dumps(self.attributes, default=str)),
            "context": dict(self.context),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TesselError:
        """Rebuild an error of the class that its ``kind`` names (the root for an unknown kind)."""
        return _restore(data)


def _walk(cls: type[TesselError]) -> Iterator[type[TesselError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _walk(child)


def _restore(data: Mapping[str, Any]) -> TesselError:
    cls = next((c for c in _walk(TesselError) if c.kind == data.get("kind")), TesselError)
    # Made by the builtin whose memory layout the class has: the first __new__ in the order of
    # resolution may be another builtin's, which refuses (a LookupError that is also an OSError).
    layout: Any = cls
    while issubclass(layout, TesselError) and layout.__base__ is not None:
        layout = layout.__base__
    error: TesselError = layout.__new__(cls)
    attributes = data.get("attributes")
    TesselError.__init__(
        error,
        str(data.get("message", "")),
        hint=data.get("hint"),
        detail=data.get("detail"),
        **(attributes if isinstance(attributes, dict) else {}),
    )
    context = data.get("context")
    error.context = (
        {str(k): str(v) for k, v in context.items()} if isinstance(context, dict) else {}
    )
    return error
