"""What authors of plug-ins, benchmarks and our own tests share: conformance suites, parity."""
