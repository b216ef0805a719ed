"""Loops over arrays, each written once in Python and compiled by the build of the package.

The clauses and the store enter here with the bytes of a segment and tables of plain integers that
say where its values lie (:class:`StoredBlocks`), and with a :class:`Program`: what is computed of a
block of rows while it is in the cache; so they do with rows that arrive as structs. A family of
kernels is one file here: functions that allocate answers and scratch memory, and below them the
loops (:mod:`tessel.kernels.declare`). This package knows numbers and nothing else: no types and no
files. What is compiled, and how, is in :mod:`tessel.kernels.build`; at run time its library is
loaded by :mod:`tessel.kernels.library`.
"""
