"""`python -m benchmarks.quality [PART ...]`: is one setting, without gold, good everywhere?

All parts by default. Fits are kept, each in a file of its own, under `benchmarks/results`: a run
that was stopped goes on where it ended. On two cores all of it takes about three hours from
nothing, a third of that where the fits of `benchmarks.paper main` are there.
"""

from __future__ import annotations

import os
import sys

# Two pools of threads that take turns must not wait for each other awake.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks import command
from benchmarks.quality import models, stress, taggers

PARTS: dict[str, command.Part] = {
    "stress": stress.page,
    "models": models.page,
    "calibration": models.calibration_page,
    "sources": models.sources_page,
    "taggers": taggers.page,
}

if __name__ == "__main__":
    sys.exit(command.run("quality", __doc__, PARTS))
