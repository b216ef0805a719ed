"""Rows that lie as structs: which are kept, and what is computed of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen
from tessel.kernels.row_program import RowOp, RowProgram, RowStatus

__all__ = ["FilteredRows", "StructRows", "filter_rows", "filter_rows_numpy"]

_WORD = 8
_BLOCK_ROWS = 1 << 14
_MOST_PRODUCT = 9.0e18
"""Products of integers that are larger as floats may have passed 64 bits."""

_INTEGER_OPS = {RowOp.ADD: np.add, RowOp.SUBTRACT: np.subtract, RowOp.MULTIPLY: np.multiply}
_FLOAT_OPS = {
    RowOp.FLOAT_ADD: np.add,
    RowOp.FLOAT_SUBTRACT: np.subtract,
    RowOp.FLOAT_MULTIPLY: np.multiply,
    RowOp.FLOAT_DIVIDE: np.divide,
}
_COMPARISONS = {
    RowOp.LESS: np.less,
    RowOp.LESS_EQUAL: np.less_equal,
    RowOp.EQUAL: np.equal,
    RowOp.FLOAT_LESS: np.less,
    RowOp.FLOAT_LESS_EQUAL: np.less_equal,
    RowOp.FLOAT_EQUAL: np.equal,
}


@dataclass(frozen=True, eq=False)
class StructRows:
    """Rows in memory.

    Attributes
    ----------
    data
        Their bytes, ``row_size`` each, uint8.
    row_size
        Bytes of a row.
    heap
        The bytes of texts, uint8. A text is an offset and a length, two uint32 in the row.
    starts
        What the offsets of each row count from, int64; no rows for the start of the heap.
    """

    data: NDArray[np.uint8]
    row_size: int
    heap: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.data) // self.row_size

    @property
    def words(self) -> NDArray[np.uint64]:
        """The eight bytes from each byte on; they overlap."""
        data = self.data
        if self.row_size < _WORD:
            data = np.concatenate([data, np.zeros(_WORD, np.uint8)])
        return np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """What a program found.

    Attributes
    ----------
    status
        Of :class:`RowStatus`; where it is not ``DONE`` there is nothing else.
    rows
        The rows that are kept, int64, ascending.
    bits
        Of each output the integers, the bits of the floats, or 0 and 1. int64, shape
        ``(outputs, rows)``.
    valid
        1 where an output has a value. uint8, of the same shape.
    """

    status: int
    rows: NDArray[np.int64]
    bits: NDArray[np.int64]
    valid: NDArray[np.uint8]


def filter_rows(rows: StructRows, program: RowProgram, seen: int | None = None) -> FilteredRows:
    """Run a program on rows.

    Parameters
    ----------
    rows, program
        At least one row, and what is computed of them.
    seen
        How many rows were asked of programs so far: numba is imported for many of them, also where
        they come a few at a time.
    """
    kernels = compiled_kernels(len(rows) if seen is None else seen, "filter_rows")
    if kernels is None:
        return filter_rows_numpy(rows, program)
    rows = StructRows(frozen(rows.data), rows.row_size, frozen(rows.heap), frozen(rows.starts))
    count, outputs = len(rows), len(program.outputs)
    chosen = np.empty(count, np.int64)
    bits = np.empty((outputs, count), np.int64)
    valid = np.empty((outputs, count), np.uint8)
    kept, status = kernels.filter_rows(
        rows.data, rows.words, rows.row_size, count, rows.heap, rows.starts,
        *program.arguments, chosen, bits, valid,
    )  # fmt: skip
    return FilteredRows(int(status), chosen[:kept], bits[:, :kept], valid[:, :kept])


# --- the numpy twin -------------------------------------------------------------------------------


def filter_rows_numpy(rows: StructRows, program: RowProgram) -> FilteredRows:
    """Return what :func:`filter_rows` does; the numpy twin."""
    chosen, bits, valid = [], [], []
    words = rows.words
    for first in range(0, len(rows), _BLOCK_ROWS):
        here = np.arange(first, min(first + _BLOCK_ROWS, len(rows)))
        block = _Block(rows, words, program, here)
        status = block.run(0, program.conditions)
        if status == RowStatus.DONE:
            if program.truth >= 0:
                block.keep(block.truths[program.truth] == 1)
            status = block.run(program.conditions, len(program.steps))
        if status != RowStatus.DONE:
            nothing = np.zeros((len(program.outputs), 0), np.int64)
            return FilteredRows(status, np.zeros(0, np.int64), nothing, nothing.astype(np.uint8))
        chosen.append(block.index)
        found = [block.output(kind, register) for kind, register in program.outputs.tolist()]
        shape = len(found), len(block.index)
        bits.append(np.array([each for each, _ in found], np.int64).reshape(shape))
        valid.append(np.array([each for _, each in found], np.uint8).reshape(shape))
    return FilteredRows(
        RowStatus.DONE,
        np.concatenate(chosen),
        np.concatenate(bits, axis=1),
        np.concatenate(valid, axis=1),
    )


_KLEENE = {
    RowOp.AND: np.array([0, 0, 0, 0, 1, 2, 0, 2, 2], np.uint8),
    RowOp.OR: np.array([0, 1, 2, 1, 1, 1, 2, 1, 2], np.uint8),
    RowOp.XOR: np.array([0, 1, 2, 1, 0, 2, 2, 2, 2], np.uint8),
    RowOp.NOT: np.array([1, 1, 1, 0, 0, 0, 2, 2, 2], np.uint8),
}
"""By three times the first operand and the second."""


class _Block:
    """The registers of some rows, by number."""

    def __init__(
        self,
        rows: StructRows,
        words: NDArray[np.uint64],
        program: RowProgram,
        index: NDArray[np.int64],
    ) -> None:
        self.index = index
        self.integers: dict[int, NDArray[np.int64]] = {}
        self.floats: dict[int, NDArray[np.float64]] = {}
        self.truths: dict[int, NDArray[np.uint8]] = {}
        self._valid: dict[tuple[str, int], NDArray[np.bool_]] = {}
        self._rows = rows
        self._words = words
        self._program = program
        self._all = True

    def keep(self, wanted: NDArray[np.bool_]) -> None:
        """Go on with some rows; what was computed of them stays."""
        if bool(wanted.all()):
            return
        self._all = False
        self.index = self.index[wanted]
        registers: Any
        for registers in (self.integers, self.floats, self.truths, self._valid):
            for number, held in registers.items():
                registers[number] = held[wanted]

    def output(self, kind: int, register: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return bits and validity of a register."""
        if kind == 0:
            return self.integers[register], self._valid["I", register]
        if kind == 1:
            return self.floats[register].view(np.int64), self._valid["F", register]
        truth = self.truths[register]
        return (truth == 1).astype(np.int64), truth != 2

    def run(self, start: int, stop: int) -> int:
        """Run steps; return the status."""
        for step in self._program.steps[start:stop].tolist():
            status = self._step(*step)
            if status != RowStatus.DONE:
                return status
        return RowStatus.DONE

    def _step(self, op: int, target: int, a: int, b: int, c: int, d: int) -> int:
        if op <= RowOp.TEXT_EQUAL:
            return self._load(op, target, a, b, c, d)
        if op <= RowOp.TO_FLOAT:
            self._constant(op, target, a)
        elif op <= RowOp.FLOAT_DIVIDE:
            return self._arithmetic(op, target, a, b)
        elif op <= RowOp.RANGE:
            self._comparison(op, target, a, b, c)
        elif op <= RowOp.NOT:
            self._connective(op, target, a, b)
        else:
            self._missing(op, target, a)
        return RowStatus.DONE

    def _present(self, d: int) -> NDArray[np.bool_]:
        if d < 0:
            return np.ones(len(self.index), np.bool_)
        octets = self._bytes(self._rows.data, d >> 3)
        found: NDArray[np.bool_] = (octets & np.uint8(1 << (d & 7))) == 0
        return found

    def _bytes(self, source: Any, at: int) -> Any:
        """Return what lies at a byte of the rows: a view while they are all there."""
        row_size = self._rows.row_size
        if not self._all:
            return source[self.index * row_size + at]
        first = int(self.index[0]) * row_size + at
        return source[first : first + (len(self.index) - 1) * row_size + 1 : row_size]

    def _load(self, op: int, target: int, a: int, b: int, c: int, d: int) -> int:
        present = self._present(d)
        if op == RowOp.PRESENT:
            self.truths[target] = present.astype(np.uint8)
            return RowStatus.DONE
        if op == RowOp.TRUTH:
            held = (self._bytes(self._rows.data, a) != 0).astype(np.uint8)
            self.truths[target] = np.where(present, held, np.uint8(2))
            return RowStatus.DONE
        loaded = self._bytes(self._words, a) << np.uint64(b)
        if op == RowOp.TEXT_EQUAL:
            return self._text(target, loaded, c, present)
        if op == RowOp.DOUBLE:
            self.floats[target] = loaded.view(np.float64)
        elif op == RowOp.SINGLE:
            self.floats[target] = (
                (loaded >> np.uint64(c)).astype(np.uint32).view(np.float32).astype(np.float64)
            )
        elif op == RowOp.SIGNED:
            self.integers[target] = loaded.view(np.int64) >> np.int64(c)
        elif op == RowOp.UNSIGNED:
            self.integers[target] = (loaded >> np.uint64(c)).view(np.int64)
        else:
            self.integers[target] = (loaded ^ np.uint64(1 << 63)).view(np.int64)
        kind = "F" if op in (RowOp.DOUBLE, RowOp.SINGLE) else "I"
        self._valid[kind, target] = present
        return RowStatus.DONE

    def _text(
        self, target: int, pairs: NDArray[np.uint64], number: int, present: NDArray[np.bool_]
    ) -> int:
        starts, heap = self._rows.starts, self._rows.heap
        offsets = (pairs & np.uint64(0xFFFFFFFF)).view(np.int64)
        lengths = (pairs >> np.uint64(32)).view(np.int64)
        if len(starts):
            offsets = offsets + starts[self.index]
        if bool((present & (offsets + lengths > len(heap))).any()):
            return RowStatus.OUTSIDE
        first, last = self._program.text_starts[number : number + 2].tolist()
        equal = present & (lengths == last - first)
        text = self._program.texts[first:last]
        for at in range(last - first):
            some = np.flatnonzero(equal)
            equal[some] = heap[offsets[some] + at] == text[at]
        self.truths[target] = np.where(present, equal.astype(np.uint8), np.uint8(2))
        return RowStatus.DONE

    def _constant(self, op: int, target: int, a: int) -> None:
        count = len(self.index)
        if op == RowOp.INTEGER:
            self.integers[target] = np.full(count, a, np.int64)
            self._valid["I", target] = np.ones(count, np.bool_)
        elif op == RowOp.FLOAT:
            self.floats[target] = np.full(count, self._program.constants[a])
            self._valid["F", target] = np.ones(count, np.bool_)
        elif op == RowOp.FIXED_TRUTH:
            self.truths[target] = np.full(count, a, np.uint8)
        else:
            self.floats[target] = self.integers[a].astype(np.float64)
            self._valid["F", target] = self._valid["I", a]

    def _arithmetic(self, op: int, target: int, a: int, b: int) -> int:
        with np.errstate(all="ignore"):
            if op in _FLOAT_OPS:
                self.floats[target] = _FLOAT_OPS[op](self.floats[a], self.floats[b])
                self._valid["F", target] = self._valid["F", a] & self._valid["F", b]
                return RowStatus.DONE
            one, two = self.integers[a], self.integers[b]
            found = _INTEGER_OPS[op](one, two)
        valid = self._valid["I", a] & self._valid["I", b]
        if op == RowOp.MULTIPLY:
            passed = np.abs(one.astype(np.float64) * two.astype(np.float64)) > _MOST_PRODUCT
        elif op == RowOp.ADD:
            passed = ((one ^ found) & (two ^ found)) < 0
        else:
            passed = ((one ^ two) & (one ^ found)) < 0
        if bool((passed & valid).any()):
            return RowStatus.OVERFLOW
        self.integers[target], self._valid["I", target] = found, valid
        return RowStatus.DONE

    def _comparison(self, op: int, target: int, a: int, b: int, c: int) -> None:
        if op == RowOp.RANGE:
            held, known = self.integers[a], self._valid["I", a]
            found = (held >= b) & (held <= c)
        elif op <= RowOp.EQUAL:
            found = _COMPARISONS[op](self.integers[a], self.integers[b])
            known = self._valid["I", a] & self._valid["I", b]
        else:
            one, two = self.floats[a], self.floats[b]
            found = _COMPARISONS[op](one, two)
            known = self._valid["F", a] & self._valid["F", b] & (one == one) & (two == two)
        self.truths[target] = np.where(known, found.astype(np.uint8), np.uint8(2))

    def _connective(self, op: int, target: int, a: int, b: int) -> None:
        one = self.truths[a]
        two = one if op == RowOp.NOT else self.truths[b]
        self.truths[target] = _KLEENE[op][3 * one + two]

    def _missing(self, op: int, target: int, a: int) -> None:
        if op == RowOp.INTEGER_MISSING:
            found = ~self._valid["I", a]
        elif op == RowOp.FLOAT_MISSING:
            found = ~self._valid["F", a] | np.isnan(self.floats[a])
        elif op == RowOp.TRUTH_MISSING:
            found = self.truths[a] == 2
        else:
            self.truths[target] = np.where(self.truths[a] == 1, 1, 2).astype(np.uint8)
            return
        self.truths[target] = found.astype(np.uint8)
