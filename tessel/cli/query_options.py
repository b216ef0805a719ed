"""The options of a query, the same for each command that takes one, and what they lower onto.

``--where "price > 10" --by symbol --agg "mean(price)" --sort price_mean --limit 5`` is the query
``filter(...).groupby(...).agg(...).sort(...).head(5)``: verbs in this order, whatever the order of
the options. Text is in the grammar of expressions.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tessel.errors import (
    DuplicateColumnError,
    InvalidInputError,
    MissingDependencyError,
    PlanFormatError,
)

Options = Mapping[str, tuple[Any, ...]]
"""By name: kind, what it takes, help; the default and how it is told, where there is one."""

_OPTIONS: Options = {
    "where": (list, "CONDITION", "Rows to keep: price > 10 and symbol == 'a'; repeatable."),
    "by": (list, "KEY", "A key of groups: symbol, or day=floor(time, '1d'); repeatable."),
    "agg": (
        list,
        "AGGREGATE",
        "What to compute: mean(price), vwap=sum(price * qty) / sum(qty), rows=count, or sum of all "
        "columns that can; repeatable.",
    ),
    "resample": (str, "RULE", "Time buckets, of each key: 15min, 1h, 1D, MS."),
    "tz": (str, "ZONE", "The time zone of the buckets."),
    "having": (list, "CONDITION", "Rows of the result to keep; repeatable."),
    "sort": (list, "COLUMN", "What to order by: price, -price or price desc; repeatable."),
    "columns": (list, "COLUMNS", "Columns of the result: time,price; repeatable."),
    "limit": (int, "ROWS", "The most rows of the result."),
}
"""The verbs that options stand for, in their order."""

_NAMED = re.compile(r"\s*(\w+)\s*=(?!=)(.*)", re.DOTALL)
_CALL = re.compile(r"\s*\w+\(.*\)\s*", re.DOTALL)
_ORDER = re.compile(r"(-?)(.*?)(?:\s+(asc|desc))?\s*", re.DOTALL | re.IGNORECASE)


def options_of(table: Options, panel: str | None = None) -> list[inspect.Parameter]:
    """Return the options of a table as parameters of a command, on a panel of their own in help."""
    made = []
    for name, (kind, metavar, text, *told) in table.items():
        default, shown = (*told, None, None)[:2]
        option = typer.Option(
            f"--{name.replace('_', '-')}",
            metavar=metavar,
            help=text,
            rich_help_panel=panel,
            min=0 if kind is int else None,
            show_default=shown or True,
        )
        of: Any = list[str] if kind is list else kind
        annotation: Any = Annotated[of if default is not None else of | None, option]
        by_name = inspect.Parameter.KEYWORD_ONLY
        made.append(inspect.Parameter(name, by_name, default=default, annotation=annotation))
    return made


def takes(
    name: str, parameters: Sequence[inspect.Parameter], make: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command parameters in place of its one of a name.

    That one is given what ``make`` makes of them.
    """

    def taking(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            asked = {each.name: given.pop(each.name) for each in parameters}
            command(**given, **{name: make(**asked)})

        held = [(each,) if each.name != name else parameters for each in own.parameters.values()]
        flat = itertools.chain.from_iterable(held)
        made = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
        run.__signature__ = own.replace(parameters=made)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in made}
        return run

    return taking


def those_given(**asked: Any) -> Mapping[str, Any]:
    """Return the options that were given, by name."""
    return {name: value for name, value in asked.items() if value not in (None, [])}


takes_options = takes("options", options_of(_OPTIONS, "Query"), those_given)
"""Gives a command the options of a query; its parameter ``options`` maps those that were given."""


def query_of(data: Any, options: Mapping[str, Any] | None = None) -> Any:
    """Return a query: a plain form, a condition, a file of either, or nothing, and then options.

    Raises
    ------
    InvalidInputError
        For a file that is absent or not text, and options that do not go together.
    PlanFormatError, ExpressionError
        For what is no query.
    """
    import tessel as ts

    if isinstance(data, str) and is_document(data):
        data = read_document(Path(data))
    if isinstance(data, str):
        query = ts.QueryBuilder().filter(data)
    else:
        query = ts.QueryBuilder() if data is None else ts.QueryBuilder.from_json(data)
    given = dict(options or {})
    if "where" in given:
        query = query.filter(*given["where"])
    query = _aggregated(query, given)
    if "having" in given:
        query = query.filter(*given["having"])
    if "sort" in given:
        keys = [_ORDER.fullmatch(each) for each in _split(given["sort"])]
        names = [key[2] for key in keys if key is not None]
        down = [bool(k[1]) or (k[3] or "").lower() == "desc" for k in keys if k is not None]
        query = query.sort(names, descending=down)
    if "columns" in given:
        query = query.select(_split(given["columns"]))
    return query.head(given["limit"]) if "limit" in given else query


def _aggregated(query: Any, given: Mapping[str, Any]) -> Any:
    grouping = [f"--{name}" for name in ("by", "resample") if name in given]
    if "tz" in given and "resample" not in given:
        raise InvalidInputError("--tz is the time zone of --resample, which is not given")
    if "agg" not in given:
        if grouping:
            raise InvalidInputError(
                f"{' and '.join(grouping)} needs --agg: what is computed of each group",
                hint='such as --agg "mean(price)" or --agg rows=count',
            )
        return query
    named, every = _aggregates(given["agg"])
    keys: dict[str, Any] = {}
    for text in given.get("by", ()):
        match = _NAMED.fullmatch(text)
        if match is not None:
            _put(keys, match[1], match[2], "--by")
        elif _CALL.fullmatch(text):
            raise InvalidInputError(f"--by {text!r} needs a name", hint=f'--by "name={text}"')
        else:
            for name in _split([text]):
                _put(keys, name, f"`{name}`", "--by")
    if "resample" in given:
        query = query.resample(given["resample"], by=keys or (), tz=given.get("tz"))
    elif keys:
        query = query.groupby(keys)
    return query.agg(*every, **named) if every else query.agg(named)


def _aggregates(texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return aggregates by the names of their outputs, and the one that is of all columns."""
    import tessel as ts
    from tessel.expression.leaves import Column
    from tessel.expression.operators.aggregate import Aggregated

    named, every = dict[str, Any](), list[str]()
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is not None:
            name, how = match[1], match[2].strip()
            made = ts.parse(how) if "(" in how else "size" if how == "count" else how
        elif "(" not in text:
            every.append(text.strip())
            continue
        else:
            made = ts.parse(text)
            operands = made.operands if isinstance(made, Aggregated) else ()
            if not operands or not isinstance(operands[0], Column):
                raise InvalidInputError(f"--agg {text!r} needs a name", hint=f'--agg "name={text}"')
            name = f"{operands[0].column}_{made.how}"  # type: ignore[attr-defined]
        _put(named, name, made, "--agg")
    if every and (named or len(every) > 1):
        raise InvalidInputError(
            f"--agg {every[0]} is of all columns, and stands alone",
            hint=f'name what is computed: --agg "{every[0]}(price)"',
        )
    return named, every


def _put(columns: dict[str, Any], name: str, value: Any, option: str) -> None:
    if name in columns:
        raise DuplicateColumnError(
            f"{option} makes two columns named {name!r}",
            hint=f'give one of them another name: {option} "name=..."',
            column=name,
        )
    columns[name] = value


def _split(texts: Sequence[str]) -> list[str]:
    """Return names that are given one by one or with commas between them."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


# --- documents from files: plans and jobs, as JSON or YAML ---------------------------------------

_YAML = (".yaml", ".yml")
_SCALARS = {
    "bool": (r"true|false", "tf"),
    "int": (r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    "float": (r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    "null": (r"null|~|", ["n", "~", ""]),
}
"""Plain scalars that are no text, as in JSON: with the rules of YAML 1.1 the field ``on`` of a join
is a truth value, and a date is no text."""


def is_document(text: str) -> bool:
    """Return whether an argument names a file, rather than being an expression."""
    return text.endswith((".json", *_YAML))


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the fields of a JSON or YAML file.

    Raises
    ------
    InvalidInputError
        For a file that is absent.
    PlanFormatError
        For one that is not text, not of its format, or holds no fields.
    MissingDependencyError
        For YAML, without the extra ``cli``.
    """
    from tessel.store.files import require_file

    require_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        data = _from_yaml(text) if path.suffix in _YAML else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanFormatError(f"cannot read {str(path)!r}: {error}", path=str(path)) from error
    if not isinstance(data, Mapping):
        raise PlanFormatError(f"{str(path)!r} holds no fields", path=str(path))
    return data


def _from_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyyaml", "cli", "a file of YAML") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (of the parent, replaced)

    for name, (pattern, first) in _SCALARS.items():
        kind = f"tag:yaml.org,2002:{name}"
        Loader.add_implicit_resolver(kind, re.compile(f"^(?:{pattern})$"), list(first))
    try:
        return yaml.load(text, Loader)  # a SafeLoader: plain data
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
