"""Makes ``docs/options.md`` of the class and the command line: ``python -m tests.options_page``."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from tessel.options import Options

__all__ = ["page"]

PATH = Path(__file__).parents[1] / "docs" / "options.md"
_HEAD = """# Options and variables of the environment

Options change how fast and in how much memory an answer is found, never the answer. Each has a
default, which a variable of the environment replaces for a process, and `with ts.options(...)` for
a block:

```python
import tessel as ts

with ts.options(workers=1, live_bytes=64 * 1024 * 1024) as chosen:
    assert chosen.workers == 1
```

A name or a value that is none raises an error that says the nearest. `1`, `true` and `yes` in a
variable are true, `0`, `false` and `no` false, and `_` may stand in numbers:
`TESSEL_LIVE_BYTES=64_000_000`.

| option | variable | default | what |
|---|---|---|---|
"""
_OTHERS = """
## Other variables

| variable | what |
|---|---|
| `TESSEL_STORE` | the store of `tessel` commands without `--store` |
| `TESSEL_DEBUG` | `1`: the command line shows tracebacks of errors |
| `JAVA_HOME` | the Java that Spark runs on, before the one of the extra `spark` |
| `SPARK_HOME` | a Spark of yours, instead of the one within pyspark |
| `SPARK_REMOTE` | the address of Spark Connect, `sc://…`, instead of `spark_master` |
| `SPARK_LOCAL_DIRS` | where Spark keeps what it shuffles |
| `OPENBLAS_THREAD_TIMEOUT` | threads of numpy's BLAS sleep after 2 to this power of cycles \
without work. With `20` a script needs 0.1 s less processor time to start; Tessel uses no BLAS. \
The `tessel` command sets it, unless it is set |
| `XDG_CACHE_HOME` | the folder that the user's private cache lies in |
| `AWS_…`, `GOOGLE_…`, `AZURE_…` | credentials of a cloud: see [object stores](object-stores.md) |
"""


def _meanings() -> dict[str, str]:
    """Return what the docstring says of each option, each on one line."""
    text = inspect.cleandoc(Options.__doc__ or "").split("----------\n", 1)[1]
    found = {}
    for entry in re.split(r"\n(?=\S)", text):
        names, _, told = entry.partition("\n")
        found |= dict.fromkeys(names.split(", "), " ".join(told.split()))
    return found


def page() -> str:
    """Return the text of the page."""
    meanings, rows = _meanings(), []
    for field in dataclasses.fields(Options):
        default = "the CPUs" if field.name == "workers" else _shown(field.default)
        variable = f"TESSEL_{field.name.upper()}"
        told = meanings[field.name].replace("``", "`").replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{variable}` | {default} | {told} |\n")
    return _HEAD + "".join(rows) + _OTHERS


def _shown(value: object) -> str:
    return f"`{value:_}`" if type(value) is int else f"`{value!r}`"


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
