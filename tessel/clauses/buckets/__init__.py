"""Time buckets: from a rule such as ``"15min"`` or ``"MS"`` to bucket numbers, edges and labels.

A rule in hours or less counts elapsed time from an origin. A rule in days or longer is a calendar
rule: a bucket starts at the first instant of its local date, in the zone of the index, so a day of
23 or 25 hours is one bucket. One file a kind of rule; what they have in common is
:class:`tessel.clauses.buckets.base.Bucketer`, and nothing outside asks for more than that.
"""
