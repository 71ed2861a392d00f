#!/usr/bin/env bash
# Runs one example against a live server and looks at what it prints.
#   run_example.sh PSERVER EXAMPLE_FOLDER BUILD_FOLDER [lossy]
# lossy: the first answer to each request that changes something is lost on the way.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pserver=$1 example=$2 build=$3 way=${4:-whole}

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

mkfifo "$work/log"
"$pserver" --listen 127.0.0.1:0 --data-dir "$work/data" --etcd-ttl 60s 2>"$work/log" &
started+=($!)
exec 3<"$work/log"
address=
while [ -z "$address" ] && read -r -t 120 line <&3; do
    address=$(sed -n 's/.* listening address=\([^ ]*\).*/\1/p' <<<"$line")
done
if [ -z "$address" ]; then
    echo "the server did not say where it listens"
    exit 1
fi

if [ "$way" = lossy ]; then
    mkfifo "$work/front"
    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$here/lossy_front.py" "$address" >"$work/front" &
    started+=($!)
    exec 4<"$work/front"
    read -r -t 120 _ address <&4
fi

# The second run finds the servers initialised and its gradient on top of the first one's.
for expected in $'version 1\nw = 0.5 1.5 2.5' $'version 2\nw = 0 1 2'; do
    printed=$(OUT=$build "$example/run_$(basename "$example").sh" "$address" | sed 's/\.0\b//g')
    if [ "$printed" != "$expected" ]; then
        printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
        exit 1
    fi
done
