"""Settings shared by all tests: the hypothesis profiles."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.spark_fixtures import spark  # noqa: F401  (a fixture)

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("normal", deadline=None, suppress_health_check=_quiet)
settings.register_profile("slow", settings.get_profile("normal"), max_examples=2_000)
settings.load_profile(os.environ.get("TESSEL_TEST_PROFILE", "normal"))
