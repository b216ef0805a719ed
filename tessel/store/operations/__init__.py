"""What can be done to a store in a transaction: one file per verb.

Only the transaction enters here. A verb takes the :class:`Stage` of its transaction and its own
arguments, checks them, writes the rows that are new, and changes what the stage knows of the
symbol. It changes nothing before everything was checked.
"""
