"""Plain documents (tables, trees, graphs) as text, HTML, mermaid, DOT and JSON.

Whoever has something to show builds a document and passes it here; this part knows no clause and
imports nothing beyond pyarrow.
"""

from __future__ import annotations

from tessel.display.diagrams import render_dot, render_mermaid
from tessel.display.documents import (
    Document,
    Edge,
    Facts,
    Graph,
    Node,
    Part,
    Section,
    Table,
    Tree,
)
from tessel.display.html import render_html
from tessel.display.plain import render_json
from tessel.display.preview import preview
from tessel.display.text import render_text

__all__ = [
    "Document",
    "Edge",
    "Facts",
    "Graph",
    "Node",
    "Part",
    "Section",
    "Table",
    "Tree",
    "preview",
    "render_dot",
    "render_html",
    "render_json",
    "render_mermaid",
    "render_text",
]
