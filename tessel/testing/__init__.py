"""What plug-in authors and our own tests share: strategies, models, conformance suites."""
