#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole system on one machine in a few minutes: installs what is needed, builds, starts a
# private etcd and two parameter servers, trains with two trainers, kills one server with -9 on the
# way, shows it come back, prints loss and accuracy, and cleans up after itself.
#
#   ./deploy/quickstart.sh                      generated data, whose best accuracy is known
#   DATA=a9a TEST=a9a.t ./deploy/quickstart.sh  your own LIBSVM files
#
# Environment: EPOCHS (default 120), OPTIMIZER (adam), KEEP=1 leaves logs and checkpoints behind,
# SKIP_INSTALL=1 and SKIP_BUILD=1 skip those steps.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
work=$(mktemp -d "${TMPDIR:-/tmp}/pserver-quickstart.XXXXXX")
declare -A process=()

say() { printf '\n\033[1m==> %s\033[0m\n' "$*"; }

cleanup() {
    for name in "${!process[@]}"; do
        kill "${process[$name]}" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if [ -n "${KEEP:-}" ]; then
        echo "logs and checkpoints are in $work"
    else
        rm -rf "$work"
    fi
}
trap cleanup EXIT
trap 'echo "quickstart failed; the last lines of each log:"; tail -n 5 "$work"/*.log || true' ERR

start_etcd() {
    local attempt
    for attempt in 1 2 3 4 5; do
        client_port=$((20000 + RANDOM % 20000))
        peer_port=$((client_port + 1))
        etcd --name quickstart --data-dir "$work/etcd" \
            --listen-client-urls "http://127.0.0.1:$client_port" \
            --advertise-client-urls "http://127.0.0.1:$client_port" \
            --listen-peer-urls "http://127.0.0.1:$peer_port" \
            --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
            --initial-cluster "quickstart=http://127.0.0.1:$peer_port" \
            >"$work/etcd.log" 2>&1 &
        process[etcd]=$!
        etcd_url="http://127.0.0.1:$client_port"
        for _ in $(seq 100); do
            kill -0 "${process[etcd]}" 2>/dev/null || break
            if curl -fsS "$etcd_url/health" 2>/dev/null | grep -q true; then
                return 0
            fi
            sleep 0.1
        done
        kill "${process[etcd]}" 2>/dev/null || true
        rm -rf "$work/etcd"
    done
    echo "etcd did not start; see $work/etcd.log" >&2
    return 1
}

start_pserver() { # start_pserver NAME: which index it serves is settled in etcd
    "$bin/pserver" --listen 127.0.0.1:0 --etcd "$etcd_url" --etcd-ttl 3s --num-pservers 2 \
        --data-dir "$work/checkpoints" --checkpoint-interval 1s >>"$work/$1.log" 2>&1 &
    process[$1]=$!
}

status() { "$bin/psctl" "$@" --etcd "$etcd_url" --timeout 2s; }

# Waits until a question about psctl's JSON is answered by true.
wait_for() { # wait_for SECONDS JQ-EXPRESSION
    local _
    for _ in $(seq $(($1 * 5))); do
        if status status --output json 2>/dev/null | jq -e "$2" >/dev/null 2>&1; then
            return 0
        fi
        sleep 0.2
    done
    echo "waited $1 s in vain for: $2" >&2
    return 1
}

if [ -z "${SKIP_INSTALL:-}" ]; then
    say "Installing what is missing"
    ./deploy/install-deps.sh demo
fi
if [ -z "${SKIP_BUILD:-}" ]; then
    say "Building"
    cmake --preset release -DPS_TESTS=OFF >"$work/build.log"
    cmake --build --preset release --target pserver psctl pstrain | tail -n 1
fi

data=${DATA:-}
test=${TEST:-}
if [ -z "$data" ]; then
    say "Making data with a known best accuracy"
    "$bin/pstrain" generate --out "$work/train.svm" --rows 30000 --noise 0.1 --seed 1
    "$bin/pstrain" generate --out "$work/test.svm" --rows 10000 --noise 0.1 --seed 2
    data=$work/train.svm
    test=$work/test.svm
fi

say "Starting a private etcd and two parameter servers"
start_etcd
start_pserver pserver-a
start_pserver pserver-b
wait_for 20 'map(select(.state == "uninitialized")) | length == 2'
status status

say "Training with two trainers"
"$bin/pstrain" --data "$data" ${test:+--test "$test"} --etcd "$etcd_url" --workers 2 \
    --optimizer "${OPTIMIZER:-adam}" --epochs "${EPOCHS:-120}" >"$work/result.txt" &
process[trainer]=$!
wait_for 30 'map(.position) | max > 2000'

say "Killing one server with kill -9 while training goes on"
kill -9 "${process[pserver-a]}"
{ wait "${process[pserver-a]}" || true; } 2>/dev/null
unset 'process[pserver-a]'
status status || true

say "Starting it again: it waits for the dead server's lease, then loads the checkpoint"
start_pserver pserver-a
wait_for 30 'map(select(.state == "ready")) | length == 2'
status status

wait "${process[trainer]}"
unset 'process[trainer]'
say "Result"
cat "$work/result.txt"
