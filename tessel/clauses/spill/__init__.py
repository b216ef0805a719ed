"""Putting tables aside: what a clause that needs everything does when everything is too much.

A query has one byte budget, ``Options.live_bytes``, and one :class:`Account` of what it keeps
alive: units under way, finished units that wait for their turn, and what clauses and barriers hold.
Half of the budget may be held; what does not fit goes to a :class:`SpillFile` and is read back when
its turn comes. The result of ``collect`` is in no account.

A clause that takes a stream finds the account and the files of its query by its stream::

    def consume(self, units, schema):
        with workspace_of(units) as workspace, workspace.spool() as spool:
            parked = [spool.put(unit.table) for unit in units]
            for each in parked:
                yield ...spool.take(each)

Barriers, the sorts, ``distinct``, aggregations and clauses of your own come here; nothing here
knows a clause.
"""

from tessel.clauses.spill.account import Account
from tessel.clauses.spill.aside import AsideUnit
from tessel.clauses.spill.file import SpillBlock, SpillFile
from tessel.clauses.spill.giving_back import give_back
from tessel.clauses.spill.spool import Parked, Spool
from tessel.clauses.spill.workspace import UnitStream, Workspace, workspace_of

__all__ = [
    "Account",
    "AsideUnit",
    "Parked",
    "SpillBlock",
    "SpillFile",
    "Spool",
    "UnitStream",
    "Workspace",
    "give_back",
    "workspace_of",
]
