"""Putting tables aside: what a clause that needs everything does when everything is too much.

A query has one byte budget, ``Options.live_bytes``, and one :class:`Account` of what it keeps
alive: units under way, finished units that wait for their turn, and what clauses and barriers hold.
Half of the budget may be held; what does not fit goes to a :class:`SpillFile` and is read back when
its turn comes. The result of ``collect`` is in no account.

A clause that takes a stream finds the account and the files of its query by its stream::

    def consume(self, units, schema):
        with workspace_of(units) as workspace, workspace.spill_buffer() as buffer:
            buffered = [buffer.put(unit.table) for unit in units]
            for each in buffered:
                yield ...buffer.take(each)

Barriers, the sorts, ``distinct``, aggregations and clauses of your own come here; nothing here
knows a clause.
"""

from __future__ import annotations

from tessel.lazy import names_from

__getattr__ = names_from(
    __name__,
    {
        "file": "SpillBlock SpillFile give_back",
        "spill_buffer": "BufferedTable BufferedUnit SpillBuffer",
        "workspace": "Account UnitStream Workspace workspace_of",
    },
)
