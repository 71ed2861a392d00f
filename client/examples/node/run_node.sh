#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs gRPC and protobuf and runs the example: ./run_node.sh HOST:PORT[,...]
# Needs nodejs and npm.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../../proto
out=${OUT:-$here/../../../build/examples/node}
mkdir -p "$out"
cp "$here/package.json" "$here/package-lock.json" "$here"/*.js "$out/"
if ! cmp -s "$out/package-lock.json" "$out/installed.json"; then
    (cd "$out" && npm ci --no-audit --no-fund --silent)
    cp "$out/package-lock.json" "$out/installed.json"
fi
[ $# -gt 0 ] || exit 0 # without a server the example is built alone
exec node "$out/example.js" "$1" "$proto"
