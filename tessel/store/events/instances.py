"""Instances: the components of an entity side by side, a row an instance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array
from tessel.errors import ColumnNotFoundError, InvalidInputError
from tessel.errors.arguments import checks_arguments
from tessel.store.events.queries import Found
from tessel.store.events.row import INSTANCE_KEY

__all__ = ["join_instances"]


@checks_arguments
def join_instances(state: Mapping[str, Found], primary: str) -> pa.Table:
    """Return a row for each instance of one component, with the values of all others.

    Instances are matched by their keys where both events have keys, otherwise by their place. One
    value for several instances stands for all; of fewer values the last stands for those that lack
    one; values for further instances are left out.

    Parameters
    ----------
    state
        What ``LiveStore.latest_at`` answered.
    primary
        The component whose event says which instances there are.

    Returns
    -------
    pyarrow.Table
        ``tessel.instance_key`` (the keys, or 0, 1, …), and a column a component. Null where a
        component is set to nothing, or has no instance of that key. No rows where the primary
        component is set to nothing.

    Raises
    ------
    ColumnNotFoundError
        For a primary component that the state has not.
    InvalidInputError
        For keys of several types.

    Examples
    --------
    >>> join_instances(live.latest_at("frame", 7, "scene/cars"), "position")
    """
    if primary not in state or primary == INSTANCE_KEY:
        existing = sorted(state.keys() - {INSTANCE_KEY})
        raise ColumnNotFoundError.for_name(primary, existing, where="the state")
    first = state[primary]
    count = first.num_instances if len(first.cell) else 0
    keys = first.instance_keys
    if keys is None:
        shown: pa.Array = arrow_array(np.arange(count))
    else:
        shown = keys.slice(0, count)
    columns = {INSTANCE_KEY: shown}
    for component, found in state.items():
        if component != INSTANCE_KEY:
            columns[component] = _matched(component, found, keys, count)
    return pa.table(columns)


def _matched(component: str, found: Found, keys: pa.Array | None, count: int) -> pa.Array:
    """Return the values of a component for so many instances of another event."""
    values, own = found.cell.values, found.instance_keys
    if not len(values):
        return pa.nulls(count, values.type)
    if keys is None or own is None or len(values) < found.num_instances:
        return found.cell.instances(count)
    if own.type != keys.type:
        raise InvalidInputError(
            f"component {component!r} has instances by keys of {own.type}, and others of "
            f"{keys.type}",
            hint="log the keys of an entity in one type",
            component=component,
        )
    return values.take(pc.index_in(keys.slice(0, count), value_set=own))
