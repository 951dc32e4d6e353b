#!/bin/sh
# Builds the wheel, installs it into an empty environment outside the checkout, runs the demo.
set -eu
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
"$PYTHON" -m build --quiet --wheel --outdir "$room/dist" .
"$PYTHON" -m venv "$room/venv"
"$room/venv/bin/pip" install --quiet --disable-pip-version-check "$room"/dist/*.whl
cd "$room"
"$room/venv/bin/convener" demo --output "$room/demo" > "$room/out"
grep -q "sparse-chmm" "$room/out"
test -s "$room/demo/predictions.jsonl"
echo "wheel: the demo runs from the built wheel"
