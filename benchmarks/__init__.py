"""Timing Tessel beside other engines: ``make bench``, and ``make bench-smoke`` for answers only.

- ``harness``: the program; starts one process an engine, compares answers, then lets it time
- ``worker``: what runs in that process
- ``measure``: clocks, touching every value, peak memory
- ``answers``: whether two answers are the same
- ``report``: the table and the JSON file
- ``engines/``: one file an engine · ``workloads/``: one file a workload
- ``events``: event rows and the live store, beside a peer in an environment of its own
- ``cold``: a script from process start to end, and what it imports, a program of its own
"""
