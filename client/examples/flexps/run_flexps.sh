#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the example: ./run_flexps.sh HOST:PORT FILE [ITERATIONS] [WORKERS]
# Needs a C compiler, pkg-config and libpsclient: installed, or built in this tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/../../../build/release/examples/flexps}
mkdir -p "$out"
if ! pkg-config --exists psclient; then
    cmake --install "$out/../.." --component client --prefix "$out/prefix" >/dev/null
    PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name psclient.pc)")
    export PKG_CONFIG_PATH
fi
library_folder=$(pkg-config --variable=libdir psclient)
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -o "$out/logistic" "$here/logistic.c" \
    $(pkg-config --cflags --libs psclient) -lm -pthread -Wl,-rpath,"$library_folder"
exec "$out/logistic" "$@"
