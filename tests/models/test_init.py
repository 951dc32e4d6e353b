"""Models by name, with and without the libraries they need."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import convener as cv
from convener.models import installed_models
from convener.cli import main
names = [model.name for model in installed_models()]
assert "hmm" in names and "sparse-chmm" not in names, names
try:
    cv.get_model("sparse-chmm")
except cv.MissingDependencyError as error:
    print(error)
main(["models"])
"""


def test_without_torch_the_other_models_work_and_the_way_to_the_rest_is_told() -> None:
    said = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert "sparse-chmm needs torch: pip install 'convener[encoders]'" in said.stdout
    assert "chmm: pip install 'convener[encoders]'" in said.stdout
