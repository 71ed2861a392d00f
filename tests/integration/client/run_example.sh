#!/usr/bin/env bash
# Runs one example against a live server and looks at what it prints.
#   run_example.sh PSERVER EXAMPLE_FOLDER BUILD_FOLDER
set -euo pipefail
pserver=$1 example=$2 build=$3

work=$(mktemp -d)
server=
cleanup() {
    if [ -n "$server" ]; then
        kill -9 "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT

mkfifo "$work/log"
"$pserver" --listen 127.0.0.1:0 --data-dir "$work/data" 2>"$work/log" &
server=$!
exec 3<"$work/log"
address=
while [ -z "$address" ] && read -r -t 30 line <&3; do
    address=$(sed -n 's/.* listening address=\([^ ]*\).*/\1/p' <<<"$line")
done
if [ -z "$address" ]; then
    echo "the server did not say where it listens"
    exit 1
fi

# The second run finds the servers initialised and its gradient on top of the first one's.
for expected in $'version 1\nw = 0.5 1.5 2.5' $'version 2\nw = 0 1 2'; do
    printed=$(OUT=$build "$example/run_$(basename "$example").sh" "$address" | sed 's/\.0\b//g')
    if [ "$printed" != "$expected" ]; then
        printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
        exit 1
    fi
done
