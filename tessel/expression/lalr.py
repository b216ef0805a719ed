"""Reads texts by the LALR tables that lark made of the grammar, without lark.

`parse` calls :func:`read_sentence` with a text and a function for each rule of the grammar. A text
that the tables do not accept is left to lark, which finds what is wrong. For the first text of a
process lark takes 90 ms, to be imported, to load its tables and to compile its scanners; these
tables take 11.
"""

from __future__ import annotations

import functools
import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["NoSentenceError", "Token", "read_sentence"]

_END = "$END"


class NoSentenceError(Exception):
    """The grammar does not accept a text."""


class Token(str):
    """A word of a text, and where it starts."""

    __slots__ = ("start_pos",)
    start_pos: int

    @classmethod
    def at(cls, place: int, word: str) -> Token:
        """Return the token of a word."""
        token = cls(word)
        token.start_pos = place
        return token


class _Rule(NamedTuple):
    """A rule of the grammar.

    Attributes
    ----------
    origin
        What it makes, as states know it.
    length
        How many parts it has.
    name
        Of the function that is given the parts; empty where the parts stand for themselves in the
        rule around it, None where the one part is what the rule makes.
    taken
        The places of the parts that are used; ``~place`` of one that is several.
    """

    origin: str
    length: int
    name: str | None
    taken: Sequence[int]


class _Tables(NamedTuple):
    """The tables of a grammar.

    Attributes
    ----------
    states
        What is done in each state with the next token: go to the state of a number, or reduce by
        rule ``~number``.
    start, end
        The state before the first token, and the one behind the last.
    words
        Matches one token, whose kind is the name of the last group that matched.
    """

    states: list[dict[str, int]]
    rules: list[_Rule]
    start: int
    end: int
    words: re.Pattern[str]


@functools.cache
def _tables() -> _Tables:
    written = pkgutil.get_data(__package__, "grammar.json")
    assert written is not None
    read = json.loads(written)
    return _Tables(
        states=read["states"],
        rules=[_Rule(origin, parts, name, taken) for origin, parts, name, taken in read["rules"]],
        start=read["start"],
        end=read["end"],
        words=re.compile(read["words"]),
    )


def read_sentence(text: str, makers: Mapping[str, Callable[..., Any]]) -> Any:
    """Return what the rules of the grammar make of a text.

    Raises NoSentenceError where the grammar does not accept the text; errors of makers pass.

    Parameters
    ----------
    makers
        Of each named rule the function that is called with its parts, from left to right.
    """
    tables = _tables()
    states = [tables.start]
    made: list[Any] = []
    place = 0
    while True:
        kind, token, place = _next(tables.words, text, place)
        while (action := tables.states[states[-1]].get(kind)) is not None and action < 0:
            rule = tables.rules[~action]
            whole = _whole(rule, made[len(made) - rule.length :], makers)
            del states[len(states) - rule.length :], made[len(made) - rule.length :]
            states.append(tables.states[states[-1]][rule.origin])
            made.append(whole)
            if kind == _END and states[-1] == tables.end:
                return whole
        if action is None:
            raise NoSentenceError
        states.append(action)
        made.append(token)


def _whole(rule: _Rule, parts: Sequence[Any], makers: Mapping[str, Callable[..., Any]]) -> Any:
    """Return what a rule makes of its parts."""
    used: list[Any] = []
    for place in rule.taken:
        if place >= 0:
            used.append(parts[place])
        elif used:
            used += parts[~place]
        else:
            used = parts[~place]  # it grows by one for each item of a list: never copied
    if rule.name is None:
        return used[0]
    return makers[rule.name](*used) if rule.name else used


def _next(words: re.Pattern[str], text: str, place: int) -> tuple[str, Token, int]:
    """Return the kind of the next token, the token, and the place behind it."""
    while place < len(text):
        found = words.match(text, place)
        if found is None:
            raise NoSentenceError
        place = found.end()
        if kind := found.lastgroup:
            return kind, Token.at(found.start(), found[0]), place
    return _END, Token.at(place, ""), place
