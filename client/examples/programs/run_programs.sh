#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs one of the examples: ./run_programs.sh attention|kv_app ARGUMENTS
# Needs a C compiler, pkg-config and libpsclient: installed, or built in this tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/../../../build/release/examples/programs}
name=$1
shift
mkdir -p "$out"
if ! pkg-config --exists psclient; then
    cmake --install "$out/../.." --component client --prefix "$out/prefix" >/dev/null
    PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name psclient.pc)")
    export PKG_CONFIG_PATH
fi
library_folder=$(pkg-config --variable=libdir psclient)
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -O2 -o "$out/$name.$$" "$here/$name.c" $(pkg-config --cflags --libs psclient) \
    -Wl,-rpath,"$library_folder"
mv "$out/$name.$$" "$out/$name"
if [ $# -gt 0 ]; then
    exec "$out/$name" "$@"
fi
