"""``tessel versions``: the versions that touched a symbol."""

from __future__ import annotations

from tessel.cli.arguments import Form, StoreUri, Symbol, open_existing
from tessel.cli.output import OutputFormat, make_output

__all__ = ["versions"]


def versions(symbol: Symbol, store: StoreUri, output: Form = OutputFormat.TABLE) -> None:
    """List the versions of a symbol, oldest first."""
    import pyarrow as pa

    numbers = open_existing(store).versions(symbol)
    make_output(output).table(pa.table({"version": pa.array(numbers, pa.int64())}))
