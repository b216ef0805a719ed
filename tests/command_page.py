"""Makes ``docs/command-line.md`` of the parser: ``python -m tests.command_page``."""

from __future__ import annotations

import enum
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import typer

from tessel.cli import exit_codes
from tessel.cli.app import app

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"

_HEAD = """# Command line

`tessel` comes with the extra `cli`; `python -m tessel` is the same command. The store is given by
`--store`, or by the environment variable `TESSEL_STORE`.

```console
$ tessel import trades.csv --store data --symbol trades --index time
$ tessel query trades --where "price > 10" --by symbol --agg "mean(price)" --agg rows=count
$ tessel query trades --resample 1h --by symbol --agg "vwap=sum(price * qty) / sum(qty)" -o csv
$ tessel query trades --agg max
$ tessel explain trades --where "price > 10" --pages
$ tessel plot trades --resample 1h --agg "mean(price)" --file mean.html
```

The options of a query are the same for `query`, `export`, `plot`, `explain`, `check` and `submit`,
and lower onto the verbs of a query in this order: `--where`, `--resample` or `--by` with `--agg`,
`--having`, `--sort`, `--columns`, `--limit`. What an aggregate without a name makes is called by
its column and by what it is: `mean(price)` makes `price_mean`. A plan file or an expression runs
before them.

## SQL

There is no SQL of ours. DuckDB reads results: what `--output arrow` prints is an Arrow stream, and
in Python a result is a relation.

```python
import duckdb

import tessel as ts

store = ts.open("memory://")
store.write("trades", {"symbol": ["a", "b", "a"], "price": [12.0, 9.0, 11.0]})
trades = store.scan("trades").filter("price > 10").collect().to_arrow()
print(duckdb.sql("SELECT symbol, avg(price) AS mean FROM trades GROUP BY symbol").fetchall())
# prints
```

```text
[('a', 11.5)]
```

## Exit codes
"""


def _exit_codes() -> list[str]:
    lines = inspect.cleandoc(exit_codes.__doc__ or "").splitlines()
    rows = [re.fullmatch(r"(\d+) +(.*)", line) for line in lines]
    table = [f"| {row[1]} | {row[2]} |" for row in rows if row is not None]
    return ["", "| code | meaning |", "|---|---|", *table, ""]


def _sections(command: Any, path: str) -> list[str]:
    lines = ["", f"## `{path}`", "", *inspect.cleandoc(command.help or "").splitlines(), ""]
    inner = getattr(command, "commands", {})
    rows = list[str]()
    for each in command.params:
        if each.name == "help":
            continue
        is_argument = each.param_type_name == "argument"
        spelled = [each.metavar or each.name.upper()] if is_argument else [*each.opts]
        spelled += [] if is_argument else each.secondary_opts
        takes = "" if is_argument or each.is_flag else f" {each.metavar or _kind(each)}"
        needed = " Needed." if each.required else ""
        text = f"{each.help or ''}{needed}".replace("|", "\\|")
        rows.append(f"| `{', '.join(spelled)}{takes}` | {text} |")
    if rows:
        lines += ["| | |", "|---|---|", *rows]
    return lines + [line for name in inner for line in _sections(inner[name], f"{path} {name}")]


def _kind(option: Any) -> str:
    kind = option.type_descriptor.annotation
    if choices := get_args(kind) or (list(kind) if issubclass(kind, enum.Enum) else ()):
        return "\\|".join(choices)
    return str(kind.__name__).upper()


def page() -> str:
    """Return the text of the page."""
    command = typer.main.get_command(app)
    return _HEAD + "\n".join([*_exit_codes(), *_sections(command, "tessel")]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
