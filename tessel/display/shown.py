"""What prints as text, and shows as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from tessel.display.documents import Document, Part
from tessel.display.html import render_html
from tessel.display.plain import render_json
from tessel.display.text import render_text
from tessel.errors import NameNotFoundError
from tessel.errors.arguments import checks_arguments


@checks_arguments
class Shown:
    """Something that has a document."""

    formats: ClassVar[dict[str, Callable[[Part], str]]] = {
        "text": render_text,
        "html": render_html,
        "json": render_json,
    }

    if TYPE_CHECKING:  # a field, or a property

        @property
        def document(self) -> Document:
            """What is shown, as plain parts."""

    def __str__(self) -> str:
        return render_text(self.document)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_html(self.document)

    def render(self, format: str = "text") -> str:  # noqa: A002  # the word users know
        """Return it as ``"text"``, ``"html"`` or ``"json"``.

        Raises
        ------
        NameNotFoundError
            For another format.
        """
        if format not in self.formats:
            raise NameNotFoundError.for_name("format", format, sorted(self.formats))
        return self.formats[format](self.document)
