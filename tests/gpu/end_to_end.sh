#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A whole server on a device: training over loopback, kill -9, recovery on the CPU and back on the
# device, beside a server on the CPU that gets the same pushes. Their states have to have equal
# digests after every stage. In the end, how fast pushes and pulls through the device are.
#
#   tests/gpu/end_to_end.sh [--device DEVICE] [FOLDER]
#
# DEVICE is cuda:0 unless said; emu tries the script where there is no GPU. FOLDER is what bundle.sh
# made, or a build's folder; build/release unless said. Nothing else of the project is needed.
#
# Exit status: 0 all digests are equal; 1 something failed; 77 there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

device=cuda:0
if [ "${1:-}" = --device ]; then
    device=$2
    shift 2
fi
bundle=$(cd "${1:-build/release}" && pwd) || exit 1
# For our programs alone: the bundle's libraries are older or younger than what sed was built for.
libraries=${LD_LIBRARY_PATH:-}
[ ! -d "$bundle/lib" ] || libraries=$bundle/lib${libraries:+:$libraries}
# Where the driver's lie, on machines that do not tell the loader.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [ ! -e "$folder/libcuda.so.1" ] || libraries=${libraries:+$libraries:}$folder
done
[ "${device#cuda}" = "$device" ] || compgen -G '/dev/nvidia[0-9]*' >/dev/null || {
    echo "no GPU: there is no /dev/nvidia0; nothing was run"
    exit 77
}
work=$(mktemp -d)
declare -A pids=() addresses=() ran=()
trap stop_all EXIT

stop_all() {
    local name
    for name in "${!pids[@]}"; do
        kill -9 "${pids[$name]}" 2>/dev/null
        wait "${pids[$name]}" 2>/dev/null
    done
    rm -rf "$work"
}

fail() { # TEXT LOG...
    echo "FAILED: $1"
    shift
    tail -n 20 "$@" 2>/dev/null
    exit 1
}

program() { # NAME ARGUMENT...
    local name=$1
    shift
    LD_LIBRARY_PATH=$libraries timeout 120 "$bundle/bin/$name" "$@"
}

# Starts the server NAME, whose data are in a folder of its own, and waits until it listens.
start() { # NAME DEVICE
    local name=$1 log chosen i
    ran[$name]=$((${ran[$name]:-0} + 1))
    log=$work/$name-${ran[$name]}.log
    : >"$log"
    LD_LIBRARY_PATH=$libraries "$bundle/bin/pserver" --listen 127.0.0.1:0 \
        --data-dir "$work/$name" --device "$2" --device-min-bytes 0 --checkpoint-interval 1h \
        --log-format json \
        >"$log" 2>&1 &
    pids[$name]=$!
    for ((i = 0; i < 600; i++)); do
        ! grep -q '"msg":"serving"' "$log" || ! grep -q '"msg":"listening"' "$log" || break
        kill -0 "${pids[$name]}" 2>/dev/null || fail "$name does not start on $2" "$log"
        sleep 0.1
    done
    addresses[$name]=$(sed -n 's/.*"msg":"listening".*"address":"\([^"]*\)".*/\1/p' "$log")
    chosen=$(sed -n 's/.*"msg":"device chosen".*"device":"\([^"]*\)".*/\1/p' "$log")
    [ -n "${addresses[$name]}" ] || fail "$name does not listen within a minute" "$log"
    [ "$chosen" = "${2%%:*}" ] || [ "$chosen" = "$2" ] ||
        fail "$name is on the device '$chosen', not on $2" "$log"
}

end() { # NAME SIGNAL
    kill "-$2" "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null
    unset "pids[$1]"
}

# The same training on both servers.
train() { # SEED ENCODING
    local name
    for name in moving still; do
        program pstrain --data "$work/rows.svm" --servers "${addresses[$name]}" --seed "$1" \
            --optimizer "$optimizer" --encoding "$2" --model softmax --epochs 1 --output json \
            >"$work/train.log" 2>&1 || fail "training on $name" "$work/train.log"
    done
}

checkpoint() {
    local name
    for name in moving still; do
        program psctl checkpoint --servers "${addresses[$name]}" >"$work/checkpoint.log" 2>&1 ||
            fail "a checkpoint of $name" "$work/checkpoint.log"
    done
}

compare() { # STAGE
    local moving still
    moving=$(program psckpt digest "$work/moving" | head -n 1)
    still=$(program psckpt digest "$work/still" | head -n 1)
    [ -n "$moving" ] && [ "$moving" = "$still" ] ||
        fail "$optimizer, $1: the digests are '$moving' and '$still'" "$work"/moving-*.log
    ! grep -q 'parameter stays on the cpu' "$work"/moving-*.log ||
        fail "a parameter was not on the device" "$work"/moving-*.log
    echo "ok   $optimizer: $1: ${moving:0:16}"
}

# One life of two servers, through all places where a state may be.
stages() {
    rm -rf "$work/moving" "$work/still" "$work"/*-*.log
    start moving "$device"
    start still cpu
    train 1 native
    train 2 bfloat16
    checkpoint
    train 3 int8
    end moving KILL
    end still KILL
    compare "on $device, checkpoint and journal after kill -9"
    start moving cpu
    start still cpu
    train 4 native
    checkpoint
    train 5 float16
    end moving KILL
    end still KILL
    compare "recovered on the cpu"
    start moving "$device"
    start still cpu
    train 6 native
    end moving TERM
    end still TERM
    compare "back on $device"
}

# Pushes and pulls through the device, for the record: this judges nothing.
measure() { # SIZE
    start measured "$device"
    program psbench pushpull --size "$1" --repeat 1 --time 2s --servers "${addresses[measured]}" \
        >"$work/psbench.log" 2>&1 || fail "psbench" "$work/psbench.log" "$work"/measured-*.log
    cat "$work/psbench.log"
    end measured KILL
    rm -rf "$work/measured"
}

program pstrain generate --out "$work/rows.svm" --rows 500 --features 4096 >/dev/null 2>&1 ||
    fail "generating rows"
for optimizer in adamw ftrl momentum sgd; do
    stages
done
if [ "$device" = emu ]; then
    measure 64KiB
else
    measure 1MiB
    measure 64MiB
fi
echo "all digests are equal"
