"""How a kernel is declared: one line of types makes its machine code, its checks and its tests.

    @kernel("codes: C[n], values: V[n], sums: mut i64[g, 2]", C="u8 u16", V="i32 i64")
    def add_integers(codes, values, sums): ...

A letter stands for several types, and machine code is made for each combination. Dimensions of one
name are equally long. ``mut`` marks what is written. The result, if any, is a number: ``-> i64``.

A call checks types, layout and lengths, and runs the machine code. It does not check *values* that
the kernel uses as places; the kernel does. The source itself is ``add_integers.python``, for tests.
What a kernel may say, and how its loops become fast, is in ``docs/compiled-kernels.md``.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tessel.cancelling import check_cancelled
from tessel.forking import ChildSafeLock
from tessel.kernels import library
from tessel.lazy import dataclass

TYPES: Mapping[str, np.dtype[Any]] = {
    **{
        f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "ui" for bits in (8, 16, 32, 64)
    },
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
}
"""The types that a declaration names."""

_ARGUMENT = re.compile(r"(?P<name>\w+): (?P<mut>mut )?(?P<type>\w+)(?:\[(?P<dims>[\w, ]+)\])?$")

_Function = TypeVar("_Function", bound=Callable[..., Any])

_making = ChildSafeLock()

_compile_inner: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel.

    Attributes
    ----------
    name, type
        A type is a key of :data:`TYPES`, or a letter that stands for several.
    dims
        Names of lengths, or fixed lengths; None for a number.
    writes
        Whether the kernel writes into the array.
    """

    name: str
    type: str
    dims: tuple[str | int, ...] | None
    writes: bool


class Kernel:
    """A function over arrays, with its machine code.

    Attributes
    ----------
    name, module
        Where the source is.
    python
        The source, which runs as it is; for tests, and for the build.
    arguments, result
        What is declared.
    letters
        Letters of types, with the types that each stands for.
    """

    def __init__(self, python: Callable[..., Any], declared: str, letters: Mapping[str, str]):
        self.name, self.module, self.python = python.__name__, python.__module__, python
        self.__doc__ = python.__doc__
        before, _, result = declared.partition(" -> ")
        self.result = result or None
        self.arguments = tuple(_arguments(before))
        self.letters = {letter: tuple(types.split()) for letter, types in letters.items()}
        self._calls: dict[str, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Check the arguments and run the machine code; a place where a cancelled query ends."""
        check_cancelled()
        form = library.FORM.get() or library.machine_level()
        call = self._calls.get(form)
        if call is None:
            with _making:  # a second thread that comes first here waits, and makes nothing
                call = self._calls.get(form) or self._made(form)
        return call(*arguments)

    def _made(self, form: str) -> Callable[..., Any]:
        made = self._calls[form] = self._in_python if form == "python" else self._checked(form)
        return made

    def __repr__(self) -> str:
        return f"<kernel {self.module.rpartition('.')[2]}.{self.name}>"

    @property
    def combinations(self) -> list[dict[str, str]]:
        """Types of each letter, one dict a machine code."""
        return [
            dict(zip(self.letters, types, strict=True))
            for types in itertools.product(*self.letters.values())
        ]

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the lengths that machine code takes before all else."""
        named = (dim for each in self.arguments for dim in each.dims or () if isinstance(dim, str))
        return tuple(dict.fromkeys(named))

    def types_of(self, combination: Mapping[str, str]) -> list[str]:
        """Return the type of each argument, letters replaced."""
        return [combination.get(each.type, each.type) for each in self.arguments]

    def symbol(self, combination: Mapping[str, str], level: str) -> str:
        """Return the name of the machine code in the library."""
        module = self.module.rpartition(".")[2]
        return "__".join((module, self.name, *combination.values(), level))

    def entry(self, *types: str, level: str | None = None) -> Callable[..., Any]:
        """Return the machine code for types of the letters, in their order.

        It takes the lengths, then addresses of arrays and numbers, and checks nothing.
        """
        combination = dict(zip(self.letters, types, strict=True))
        places = [
            TYPES[kind] if each.dims is None else None
            for kind, each in zip(self.types_of(combination), self.arguments, strict=True)
        ]
        result = None if self.result is None else TYPES[self.result]
        symbol = self.symbol(combination, level or library.machine_level())
        return library.function(symbol, len(self.dims), places, result)

    def _in_python(self, *arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return self.python(*arguments)

    def _checked(self, level: str) -> Callable[..., Any]:
        """Make the function that checks arguments and calls machine code, for all types."""
        entries = {
            tuple(combination.values()): self.entry(*combination.values(), level=level)
            for combination in self.combinations
        }
        by_letters = {
            numbers: entry
            for types, entry in entries.items()
            for numbers in itertools.product(*(_numbers_of(TYPES[name]) for name in types))
        }
        source = "\n".join(_checking_source(self, list(self.letters)))
        names: dict[str, Any] = {
            "_entries": by_letters,
            "_refuse": self._refuse,
            "_ndarray": np.ndarray,
            "_read_address": ctypes.c_void_p.from_address,
            **{f"_type_{name}": dtype for name, dtype in TYPES.items()},
        }
        exec(compile(source, f"<call of {self.name}>", "exec"), names)
        made: Callable[..., Any] = names["call"]
        return made

    def _refuse(self, name: str, *given: Any) -> Any:
        """Raise the error for an argument that does not fit."""
        wanted = next(each for each in self.arguments if each.name == name)
        found = [
            f"{each.dtype}{list(each.shape)}" if isinstance(each, np.ndarray) else repr(each)
            for each in given
        ]
        dims = "" if wanted.dims is None else str(list(wanted.dims)).replace("'", "")
        raise TypeError(
            f"{name} of the kernel {self.name} is {'written and ' * wanted.writes}a contiguous "
            f"{wanted.type}{dims}, not {', '.join(found)}"
        )


def _arguments(declared: str) -> Iterator[Argument]:
    for part in re.split(r", (?=\w+: )", declared):
        found = _ARGUMENT.match(part)
        if found is None:
            raise ValueError(f"{part!r} declares no argument of a kernel")
        dims = found["dims"]
        lengths = (
            None
            if dims is None
            else tuple(int(dim) if dim.isdigit() else dim for dim in dims.split(", "))
        )
        yield Argument(found["name"], found["type"], lengths, found["mut"] is not None)


def _numbers_of(dtype: np.dtype[Any]) -> list[int]:
    """Return the numbers that numpy gives a type: C's ``long`` and ``long long`` may be one."""
    return [np.dtype(each).num for each in "?bhilqBHILQfd" if np.dtype(each) == dtype]


def _checking_source(kernel: Kernel, letters: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a function ``call``: it looks at each array and calls the machine code."""
    names = [each.name for each in kernel.arguments]
    yield f"def call({', '.join(names)}):"
    known: set[str] = set()
    typed: dict[str, str] = {}
    for each in kernel.arguments:
        if each.dims is None:
            continue
        name = each.name
        yield f"    if not isinstance({name}, _ndarray) or {name}.ndim != {len(each.dims)}:"
        yield f"        _refuse({name!r}, {name})"
        conditions = [f"not {name}.flags.c_contiguous"]
        if each.writes:
            conditions.append(f"not {name}.flags.writeable")
        if each.type in letters:
            if each.type in typed:
                conditions.append(f"{name}.dtype != {typed[each.type]}.dtype")
            else:
                typed[each.type] = name
        else:
            conditions.append(f"{name}.dtype != _type_{each.type}")
        for number, dim in enumerate(each.dims):
            if isinstance(dim, int):
                conditions.append(f"{name}.shape[{number}] != {dim}")
            elif dim in known:
                conditions.append(f"{name}.shape[{number}] != _of_{dim}")
            else:
                known.add(dim)
                yield f"    _of_{dim} = {name}.shape[{number}]"
        yield f"    if {' or '.join(conditions)}:"
        yield f"        _refuse({name!r}, {name})"
    key = "".join(f"{typed[letter]}.dtype.num, " for letter in letters)
    yield f"    _entry = _entries.get(({key}))"
    if letters:
        first = typed[letters[0]]
        yield f"    if _entry is None: _refuse({first!r}, {', '.join(typed.values())})"
    lengths = [f"_of_{dim}" for dim in kernel.dims]
    values = [
        each.name if each.dims is None else library.ADDRESS.format(each.name)
        for each in kernel.arguments
    ]
    yield f"    return _entry({', '.join([*lengths, *values])})"


def kernel(declared: str, **letters: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel; see the docstring of this module.

    It rounds as IEEE 754 says, without contraction, so that all levels of processors and the
    source as Python give the same bits.
    """
    return lambda function: Kernel(function, declared, letters)


def inner(function: _Function) -> _Function:
    """Mark a function that kernels call; it may return tuples."""
    return function if _compile_inner is None else _compile_inner(function)


def compiling_inner(compile_inner: Callable[[Any], Any]) -> None:
    """Compile inner functions from now on: for the build, before it imports any kernel."""
    global _compile_inner
    _compile_inner = compile_inner
