"""What prints as text, and shows as HTML in notebooks; renderers are imported when something is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from tessel.errors import NameNotFoundError
from tessel.errors.arguments import checks_arguments, refuses

if TYPE_CHECKING:
    from tessel.display.documents import Part


_EXPRESSIONS = (
    'its columns are: .filter(ts.col("a") > 1), .with_columns(b=ts.col("a") + 1); '
    "rows of several tables: .concat(other)"
)


class InNotebooks:
    """Something that a notebook shows as a document, whatever its text is."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for those who try, as with tables of other libraries
        __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __or__ = __and__ = refuses(
            "a {} is no value to compare or to compute with", _EXPRESSIONS
        )
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __lt__

    def _document(self) -> Part:
        """Return the document to show, as plain parts."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return _rendered("html", self._document())


@checks_arguments
class Shown(InNotebooks):
    """Something that has a document, and is printed as it."""

    if TYPE_CHECKING:  # a field, or a property

        @property
        def document(self) -> Part:
            """What is shown, as plain parts."""

    formats: ClassVar[tuple[str, ...]] = ("text", "html", "json")

    def _document(self) -> Part:
        return self.document

    def __str__(self) -> str:
        return _rendered("text", self.document)

    def __repr__(self) -> str:
        return str(self)

    def render(self, format: str = "text") -> str:  # noqa: A002  # the word users know
        """Return it in one of the ``formats``.

        Raises
        ------
        NameNotFoundError
            For another format.
        """
        if format not in self.formats:
            raise NameNotFoundError.for_name("format", format, sorted(self.formats))
        return _rendered(format, self._part(format))

    def _part(self, format: str) -> Part:  # noqa: A002
        """Return what a format shows."""
        return self.document


def _rendered(form: str, document: Part) -> str:
    text: str = getattr(import_module("tessel.display"), f"render_{form}")(document)
    return text
