"""The root of all errors, how one is carried between processes, and what its text hides.

Secrets of URIs (users, passwords and queries) are left out of every text of ours.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

__all__ = ["TesselError", "naming", "without_secrets"]

_HIDDEN = "***"
_USER = re.compile(r"""(?<=://)(?:[^\s/@"']*@|[^\s/@"']*:[^\s"']*@)""")
"""What stands before an ``@`` in the authority. A key may hold a slash that nobody has quoted:
where there is a colon, all up to the last ``@`` counts."""
_QUERY = re.compile(r"""(://[^\s"'?#]*)[?#][^\s"']+""")


def without_secrets(value: Any) -> Any:
    """Return a value with the secrets of all URIs left out, in texts and containers of them."""
    if isinstance(value, str):
        if "://" not in value:
            return value
        return _QUERY.sub(rf"\1?{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", value))
    if isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(without_secrets, value))
    return value


_MOST_SEGMENTS = 4


class TesselError(Exception):
    """Root of all errors raised on purpose. Its texts show no secret of a URI.

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

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        """Give a subclass its ``kind``, which it has in common with no other."""
        super().__init_subclass__(**options)
        if kind is not None:
            cls.kind = kind

    def __init__(
        self, message: str, *, hint: str | None = None, detail: str | None = None, **attributes: Any
    ) -> None:
        self.message: str = without_secrets(message)
        super().__init__(self.message)
        self.hint: str | None = without_secrets(hint)
        self.detail: str | None = without_secrets(detail)
        self.attributes: dict[str, Any] = without_secrets(attributes)
        self.context: dict[str, str] = {}

    def with_context(self, **context: str | None) -> Self:
        """Add where it happened (clause, symbol, segment, expression); the innermost wins."""
        for name, value in context.items():
            if value is not None:
                self.context.setdefault(name, without_secrets(value))
        return self

    def with_rows(self, start: int, stop: int, segments: Sequence[str] = ()) -> Self:
        """Add which rows ``[start, stop)`` of the symbol it happened in; the innermost wins.

        ``segments`` are the objects that hold them, of which the first few are named. Programs find
        the same as the attributes ``row_start``, ``row_stop`` and ``segments``.
        """
        if "rows" in self.context or start >= stop:
            return self
        self.attributes.update(
            row_start=start, row_stop=stop, segments=list(segments[:_MOST_SEGMENTS])
        )
        more = len(segments) - _MOST_SEGMENTS
        named = ", ".join(segments[:_MOST_SEGMENTS]) + (f" and {more} more" if more > 0 else "")
        return self.with_context(rows=f"{start} to {stop - 1}", segment=named or None)

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


@contextlib.contextmanager
def naming(**context: str | Callable[[], str]) -> Iterator[None]:
    """Let errors of a block say where it happened; what is a function is asked when one does."""
    try:
        yield
    except TesselError as error:
        error.with_context(**{k: v() if callable(v) else v for k, v in context.items()})
        raise


def _walk(cls: type[TesselError]) -> Iterator[type[TesselError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _walk(child)


def _restore(given: object) -> TesselError:
    data = given if isinstance(given, Mapping) else {}
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
