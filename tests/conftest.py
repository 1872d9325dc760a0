"""Settings for all tests: how hard Hypothesis tries.

``ci`` is the default and always tries the same examples, so that a change is judged by what it changed;
``soak`` (``make soak``) looks for new ones. A failure prints the blob that replays it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: shared machines are slow at odd moments, and tests assert no timing.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("soak", _COMMON, max_examples=3_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
