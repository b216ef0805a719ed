"""Write the tables that lark makes of the grammar: ``python -m tests.expression.grammar``.

Rules have what `tessel.expression.lalr` does with their parts: lark drops tokens whose names begin
with an underscore or that the grammar has as literal text, and puts the parts of the rules that it
makes for ``*`` and ``+`` in their places.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lark.grammar import Rule, Terminal
from lark.lexer import BasicLexer
from lark.parsers.lalr_analysis import Shift

import tessel.expression
from tessel.expression.text import lark_parser

TABLES = Path(tessel.expression.__file__).with_name("grammar.json")
GRAMMAR = TABLES.with_suffix(".lark")


def grammar_digest() -> str:
    """Return the SHA-256 of the grammar that tables are made of."""
    return hashlib.sha256(GRAMMAR.read_bytes()).hexdigest()


def tables() -> str:
    """Return the tables as JSON."""
    made = lark_parser()
    parser: Any = made.parser
    found = parser.parser._parse_table
    rules = sorted(dict.fromkeys(made.rules), key=str)
    # States by how they are reached: lark numbers them in the order of a set.
    reached = [found.start_states["start"]]
    for state in reached:
        following = [to for _, (do, to) in sorted(found.states[state].items()) if do is Shift]
        reached += [each for each in dict.fromkeys(following) if each not in reached]
    numbers = {state: number for number, state in enumerate(reached)}
    states = [
        {
            kind: numbers[told] if do is Shift else ~rules.index(told)
            for kind, (do, told) in sorted(found.states[state].items())
        }
        for state in reached
    ]
    written = {
        "grammar": grammar_digest(),
        "start": numbers[found.start_states["start"]],
        "end": numbers[found.end_states["start"]],
        "words": _words(BasicLexer(parser.lexer_conf), parser.lexer_conf.ignore),
        "rules": [_rule(rule) for rule in rules],
        "states": states,
    }
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False) + "\n"


def _words(lexer: BasicLexer, ignored: list[str]) -> str:
    """Return one pattern of all terminals, the first of which wins, as it does in lark."""
    return "|".join(
        each.pattern.to_regexp()
        if each.name in ignored
        else f"(?P<{each.name}>{each.pattern.to_regexp()})"
        for each in lexer.terminals
    )


def _rule(rule: Rule) -> list[Any]:
    parts: list[int] = []
    for place, symbol in enumerate(rule.expansion):
        if isinstance(symbol, Terminal):
            parts += [] if symbol.filter_out else [place]
        else:
            parts.append(~place if symbol.name.startswith("_") else place)
    name: str | None = str(rule.alias or rule.origin.name)
    if rule.origin.name.startswith("_"):
        name = ""
    elif not rule.alias and rule.options.expand1:
        assert len(parts) == 1, f"{rule} has no name for what it makes of its parts"
        name = None
    return [str(rule.origin.name), len(rule.expansion), name, parts]


if __name__ == "__main__":
    TABLES.write_text(tables(), encoding="utf-8")
