#!/bin/sh
# Sees to it that there is a Chromium for the tests of pages: Debian's, where one may install it.
# Elsewhere those tests are skipped and say why; in CI they never are.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" > /dev/null 2>&1; then exit 0; fi
done
if command -v apt-get > /dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        chromium fonts-dejavu-core fonts-noto-core fonts-noto-color-emoji > /dev/null
elif [ "${CI:-}" = true ]; then
    echo "tests of pages need chromium, and it cannot be installed here" >&2
    exit 1
else
    echo "no chromium: tests of pages will be skipped (on Debian: apt-get install chromium)" >&2
fi
