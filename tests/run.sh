#!/usr/bin/env bash
# Installs what is needed, builds, runs every test. The one test command of the project.
set -euo pipefail
cd "$(dirname "$0")/.."

./deploy/install-deps.sh
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release
