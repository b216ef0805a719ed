"""Write the tables that lark makes of the grammar: ``python -m tests.expression.grammar``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

import tessel.expression
from tessel.expression.text import parser_of_grammar

TABLES = Path(tessel.expression.__file__).with_name("grammar.json")
GRAMMAR = TABLES.with_suffix(".lark")


def grammar_digest() -> str:
    """Return the SHA-256 of the grammar that tables are made of."""
    return hashlib.sha256(GRAMMAR.read_bytes()).hexdigest()


def tables() -> str:
    """Return the tables as JSON."""
    data, memo = parser_of_grammar().memo_serialize([TerminalDef, Rule])
    data["options"]["transformer"] = None
    made = {"lark": lark.__version__, "grammar": grammar_digest(), "data": data, "memo": memo}
    return json.dumps(made, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    TABLES.write_text(tables(), encoding="utf-8")
