"""See `benchmarks.worlds.runs`."""

import os
import sys

# The thread pools of two libraries alternate: an idle one must not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks.worlds.runs import main

if __name__ == "__main__":
    sys.exit(main())
