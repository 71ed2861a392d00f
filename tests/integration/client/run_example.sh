#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one example against live servers and looks at what it prints.
#   run_example.sh PSERVER EXAMPLE_FOLDER BUILD_FOLDER SERVERS [lossy|together]
# SERVERS: how many; the example with two has a second parameter, which lives on the second.
# lossy: each request that changes something is refused once, and once its answer is lost.
# together: four start at the same time, and one of them gives the first values.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pserver=$1 example=$2 build=$3 servers=$4 way=${5:-whole}

work=$(mktemp -d)
started=()
cleanup() {
    for process in "${started[@]}"; do
        kill -9 "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

addresses=()
for ((i = 0; i < servers; i++)); do
    mkfifo "$work/log$i"
    "$pserver" --listen 127.0.0.1:0 --data-dir "$work/data$i" --etcd-ttl 60s 2>"$work/log$i" &
    started+=($!)
    exec {log}<"$work/log$i"
    address=
    while [ -z "$address" ] && read -r -t 120 line <&"$log"; do
        address=$(sed -n 's/.* listening address=\([^ ]*\).*/\1/p' <<<"$line")
    done
    if [ -z "$address" ]; then
        echo "the server did not say where it listens"
        exit 1
    fi
    addresses+=("$address")
done
list=$(IFS=, && echo "${addresses[*]}")

if [ "$way" = lossy ]; then
    mkfifo "$work/front"
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$here/lossy_front.py" "${addresses[@]}" \
        >"$work/front" &
    started+=($!)
    exec {front}<"$work/front"
    read -r -t 120 _ list <&"$front"
fi

if [ "$way" = together ]; then
    OUT=$build "$example/run_$(basename "$example").sh"
    program=("$build/example" "$list")
    if [ -e "$build/example.js" ]; then
        program=(node "$build/example.js" "$list" "$here/../../../proto")
    fi
    trainers=()
    for _ in 1 2 3 4; do
        "${program[@]}" >/dev/null &
        trainers+=($!)
    done
    for trainer in "${trainers[@]}"; do
        wait "$trainer"
    done
    printed=$("${program[@]}")
    if [ "$printed" != $'version 5\nw = -1.5 -0.5 0.5\nb = -1\ncounts = 10 5 0' ]; then
        printf 'after four trainers at once a fifth printed:\n%s\n' "$printed"
        exit 1
    fi
    exit 0
fi

# The second run finds the servers initialised and its gradient on top of the first one's.
first=$'version 1\nw = 0.5 1.5 2.5' second=$'version 2\nw = 0 1 2'
if [ "$servers" = 2 ]; then
    first+=$'\nb = 3\ncounts = 2 1 0' second+=$'\nb = 2\ncounts = 4 2 0'
fi
for expected in "$first" "$second"; do
    printed=$(OUT=$build "$example/run_$(basename "$example").sh" "$list" | sed 's/\.0\b//g')
    if [ "$printed" != "$expected" ]; then
        printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
        exit 1
    fi
done
