#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the stubs, builds and runs the example: ./run_go.sh HOST:PORT[,...]
# Needs golang-go, golang-google-grpc-dev, golang-goprotobuf-dev, protobuf-compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../../proto
out=${OUT:-$here/../../../build/examples/go}
mkdir -p "$out/src/example"
out=$(cd "$out" && pwd)
protoc -I "$proto" --go_out=plugins=grpc:"$out/src" \
    pserver/v1/pserver.proto pserver/v1/optimizer_config.proto
cp "$here"/*.go "$out/src/example/"
# Debian's Go libraries lie in /usr/share/gocode, so that nothing is downloaded.
export GO111MODULE=off GOPATH=$out:/usr/share/gocode GOCACHE=$out/cache GOFLAGS=
go build -o "$out/example" example
[ $# -gt 0 ] || exit 0 # without a server the example is built alone
exec "$out/example" "$@"
