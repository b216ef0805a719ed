"""Makes ``docs/errors.md`` of the classes of errors: ``python -m tests.error_pages``."""

from __future__ import annotations

import inspect
from pathlib import Path

from tessel import errors
from tessel.cli.exit_codes import exit_code
from tessel.errors import TesselError

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

_HEAD = """# Errors

Every error that Tessel raises on purpose is a `TesselError`, and also the builtin that is nearest
to it, so `except KeyError` works as well. Its text says what was asked, what exists, the nearest
match and what to do.

```python
import tessel as ts

store = ts.open("memory://")
store.write("trades", {"price": [1.5, 2.5], "qty": [10, 20]})
try:
    store.scan("trades").filter("prcie > 2").collect()
except ts.TesselError as error:
    print(error)
# prints
```

```text
[column-not-found] no column 'prcie'
    prcie > 2
    ^^^^^
  did you mean 'price'?   columns: price, qty
  in symbol: 'trades' (version 1)
```

Programs look at these, and never at the text, which may change:

| attribute | what it is |
|---|---|
| `kind` | the stable code below |
| `attributes` | the facts, plain JSON values: here `column`, `existing`, `nearest` |
| `context` | where it happened: symbol, clause, rows, segment |
| `message`, `detail`, `hint` | the parts of the text |
| `to_json()`, `from_json()` | the error as plain data, between processes |

## All of them

An error is also every error above it. *Exit* is what the command `tessel` ends with.
"""


def _rows(cls: type[TesselError], depth: int = 0) -> list[str]:
    builtins = [base.__name__ for base in cls.__bases__ if base.__module__ == "builtins"]
    doc = inspect.cleandoc(cls.__doc__ or "").splitlines()[0]
    name = "\u2003" * depth + f"`{cls.__name__}`"
    row = f"| {name} | `{cls.kind}` | {', '.join(builtins)} | {exit_code(cls(''))} | {doc} |"
    ours = [each for each in cls.__subclasses__() if each.__module__ == "tessel.errors"]
    return [row, *(found for each in ours for found in _rows(each, depth + 1))]


def page() -> str:
    """Return the text of the page."""
    assert errors.__doc__
    table = ["| class | kind | builtin | exit | when |", "|---|---|---|---|---|"]
    return _HEAD + "\n" + "\n".join([*table, *_rows(TesselError)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
