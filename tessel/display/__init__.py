"""Plain documents (tables, trees, graphs) as text, HTML, mermaid, DOT and JSON.

Whoever has something to show builds a document and passes it here; this part knows no clause and
imports nothing beyond pyarrow.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "diagrams": "render_dot render_mermaid",
        "documents": "Document Edge Facts Graph Node Part Section Table Tree",
        "html": "render_html",
        "plain": "render_json",
        "text": "render_text",
    },
)
