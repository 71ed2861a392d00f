#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes one safeguard out of the server at a time (cmake -DPS_MUTATE=NAME) and demands that the
# storm, the loss of power or 200 simulated worlds notice. A test that no mutation
# can fail proves nothing.
#
#   tests/chaos/mutations.sh                  all of them, and the same tests without one
#   tests/chaos/mutations.sh session_lookup   only this one
#
# Each is built in build/mutation/NAME. Exit 0: every mutation was noticed and the build without one
# passes. 77: a test could not run here (no root, no loop devices).
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
seeds=${PS_MUTATION_SEEDS:-"1 2 3"}
seconds=${PS_MUTATION_SECONDS:-45}
points=${PS_MUTATION_POINTS:-5}
logs="$top/build/mutation/logs"
# What broken runs leave behind goes with this run.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p "$logs"

build() {
    local name=$1 folder="$top/build/mutation/$1" mutation=$1
    [ "$name" = none ] && mutation=""
    cmake -S "$top" --preset release -B "$folder" -DPS_MUTATE="$mutation" \
        -DPS_HEADERS_ALONE=OFF >"$logs/$name.build" 2>&1 &&
        cmake --build "$folder" --target pserver psckpt storm_trainer fault_shim sim_worlds \
            >>"$logs/$name.build" 2>&1 && return 0
    tail -20 "$logs/$name.build"
    echo "mutations: $name does not build"
    return 1
}

# One run against one build: the exit status of the test.
storm() {
    PS_BUILD="$top/build/mutation/$1" "$here/storm" --seed "$2" --seconds "$seconds" \
        --every 1.5 --report "$logs/$1-storm-$2" >"$logs/$1.storm-$2" 2>&1
}

# The comparison of epochs matters when a former owner wakes up and saves: a storm of those.
zombies() {
    PS_BUILD="$top/build/mutation/$1" "$here/storm" --seed "$2" --seconds "$seconds" \
        --every 8 --only zombie --kills-min 1 --batch 16 \
        --report "$logs/$1-zombies-$2" >"$logs/$1.zombies-$2" 2>&1
}

power_loss() {
    PS_BUILD="$top/build/mutation/$1" "$here/power_loss" --seed "$2" --points "$points" \
        >"$logs/$1.power_loss-$2" 2>&1
}

worlds() {
    "$top/build/mutation/$1/tests/sim_worlds" --seed "$2" --count 500 >"$logs/$1.worlds-$2" 2>&1
}

# The rules that a run says were broken.
broken() {
    grep -hoE "BROKEN [a-z_]+: [0-9]+|(lost|no_recovery) [0-9]+|^world [0-9]+: .*" "$1" |
        grep -v "lost 0" | sort | uniq | head -5 | paste -sd ' '
}

# Runs a test with seed after seed until one notices.
noticed() {
    local name=$1 test=$2 seed status
    for seed in $seeds; do
        rm -rf "$logs/$name-$test-$seed"
        "$test" "$name" "$seed"
        status=$?
        if [ $status -eq 77 ]; then
            echo "mutations: $name: $test cannot run here"
            return 77
        fi
        if [ $status -eq 1 ] && [ -n "$(broken "$logs/$name.$test-$seed")" ]; then
            echo "mutations: $name: noticed by $test, seed $seed:" \
                "$(broken "$logs/$name.$test-$seed")"
            return 0
        fi
        echo "mutations: $name: $test, seed $seed: exit $status, nothing noticed"
    done
    return 1
}

# Which test has to notice which mutation.
check() {
    case "$1" in
        journal_sync) noticed "$1" power_loss ;;
        epoch_compare) noticed "$1" zombies ;;
        session_lookup) noticed "$1" storm ;;
        block_padding | session_floor | replay_keeps_clients | replay_configures | \
            replay_drop_session | replay_evictions | removed_keys | expiry_record | expiry_check | \
            eviction_order | row_versions | rows_aside | held_rows | round_journal | \
            round_position | round_taken | \
            replay_clock_evictions)
            noticed "$1" worlds ;;
        *) echo "mutations: there is no mutation $1"; return 1 ;;
    esac
}

# Without a mutation the same tests pass.
control() {
    local test seed=${seeds%% *} status
    for test in storm zombies power_loss worlds; do
        rm -rf "$logs/none-$test-$seed"
        "$test" none "$seed"
        status=$?
        echo "mutations: none: $test, seed $seed: exit $status" \
            "$(broken "$logs/none.$test-$seed")"
        [ $status -eq 0 ] || return $status
    done
}

wanted=("$@")
[ $# -gt 0 ] || wanted=(none journal_sync block_padding epoch_compare session_lookup session_floor
    replay_keeps_clients replay_configures replay_drop_session replay_evictions removed_keys
    expiry_record expiry_check eviction_order row_versions rows_aside held_rows
    round_journal round_position round_taken replay_clock_evictions)
failed=0
for name in "${wanted[@]}"; do
    build "$name" || { failed=1; continue; }
    if [ "$name" = none ]; then control; else check "$name"; fi
    status=$?
    [ $status -eq 77 ] && exit 77
    [ $status -eq 0 ] || failed=1
done
if [ $failed -ne 0 ]; then
    echo "mutations: NOT all is as it should be"
    exit 1
fi
echo "mutations: all as it should be"
