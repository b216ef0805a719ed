"""What the ``tessel`` command exits with: one number for each kind of failure.

==== ===========================================================================================
code meaning
==== ===========================================================================================
0    done
1    an error that Tessel did not expect (a bug: please report it, with ``--debug``)
2    the command line itself is wrong (no such command or option)
3    something named does not exist: symbol, column, version, store
4    the input, the query or an expression cannot be taken; nothing was changed
5    the store cannot be read or written: damaged, foreign, read-only, a conflict
6    the query failed while it ran, integer overflow included
7    an optional package is not installed
8    Spark or its Java runtime failed
9    two answers that must be equal differ
130  interrupted
==== ===========================================================================================
"""

from __future__ import annotations

from tessel.errors import (
    ExecutionError,
    ExpressionError,
    IntegerOverflowError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    SparkError,
    StoreError,
    TesselError,
)

ANSWERS_DIFFER = 9
STORE_DAMAGED = 5

_CODES: dict[type[BaseException], int] = {
    TesselError: 1,
    NotFoundError: 3,
    InvalidInputError: 4,
    ExpressionError: 4,
    StoreError: 5,
    ExecutionError: 6,
    IntegerOverflowError: 6,
    MissingDependencyError: 7,
    SparkError: 8,
}


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error: that of the nearest class above it in the tree."""
    return next((_CODES[cls] for cls in type(error).__mro__ if cls in _CODES), 1)
