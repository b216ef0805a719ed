"""Plain documents (tables, trees, graphs, lanes) as text, HTML, mermaid, DOT and JSON.

Whoever has something to show builds a document and passes it here; this part knows no clause and
imports nothing beyond pyarrow.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "diagrams": "render_dot render_mermaid",
        "documents": "Document Edge Facts Graph Lane Lanes Node Part Section Span Table Tree "
        "render_json",
        "html": "render_html render_page",
        "text": "render_text",
    },
)
