"""Putting the units of several flows one after another, so that tasks go on with all of them.

Units get the number of their input and one of their own, over all inputs: the order of the result,
and what tells rows of several frames apart. Units that are in the driver are sent out again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from tessel.ecs import ProcessingUnit
from tessel.spark_exec.chains import Places
from tessel.spark_exec.flows import FrameFlow, NarrowFlow, TaskFlow, UnionFlow
from tessel.spark_exec.parts import unit_rows
from tessel.spark_exec.wire import WireRow, sequence


def placed_one_after_another(flows: Sequence[tuple[TaskFlow, Sequence[int]]]) -> UnionFlow:
    """Return the units of several flows as one, numbered anew.

    Parameters
    ----------
    flows
        Each input with the ``seq`` of its units, in order.
    """
    parts: list[NarrowFlow | FrameFlow] = []
    number = 0
    for symbol, (flow, seqs) in enumerate(flows):
        placed = flow.placed(Places(np.asarray(seqs, np.int64), symbol, number))
        number += len(seqs)
        parts += placed.parts if isinstance(placed, UnionFlow) else [placed]
    return UnionFlow(tuple(parts))


def rows_of_units(units: Iterable[ProcessingUnit], blob_bytes: int) -> list[WireRow]:
    """Return units of this process as wire rows, each unit a bucket of its own, in their order."""
    return [
        dataclasses.replace(row, bucket=number)
        for number, unit in enumerate(units)
        for row in unit_rows(unit, sequence(0, number), blob_bytes)
    ]
