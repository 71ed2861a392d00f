#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the stubs, builds and runs the example: ./run_cpp.sh HOST:PORT[,...]
# Needs g++, libgrpc++-dev, protobuf-compiler, protobuf-compiler-grpc, pkg-config.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../../proto
out=${OUT:-$here/../../../build/examples/cpp}
mkdir -p "$out"
protoc -I "$proto" --cpp_out="$out" pserver/v1/optimizer_config.proto
protoc -I "$proto" --cpp_out="$out" --grpc_out="$out" \
    --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" pserver/v1/pserver.proto
if [ -n "$(find "$here" "$proto" -type f -newer "$out/example" 2>&1)" ]; then # or there is none
    g++ -std=c++17 -I "$out" -o "$out/example" "$here/example.cc" \
        "$out"/pserver/v1/*.pb.cc \
        -Wl,--as-needed $(pkg-config --cflags --libs grpc++ protobuf)
fi
[ $# -gt 0 ] || exit 0 # without a server the example is built alone
exec "$out/example" "$@"
