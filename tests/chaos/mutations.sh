#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes one safeguard out of the server at a time (cmake -DPS_MUTATE=NAME) and demands that the
# storm, the loss of power, a test of real servers or 500 simulated worlds notice. A test that no
# mutation can fail proves nothing.
#
#   tests/chaos/mutations.sh                  all of them, and the same tests without one
#   tests/chaos/mutations.sh session_lookup   only this one
#
# All are built in build/mutation/build, one after the other: only what a mutation is in is compiled
# again, and only what its test runs is linked. Exit 0: every mutation was noticed and the build
# without one passes. 77: a test could not run here (no root, no loop devices).
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
seeds=${PS_MUTATION_SEEDS:-"1 2 3"}
seconds=${PS_MUTATION_SECONDS:-45}
points=${PS_MUTATION_POINTS:-5}
folder="$top/build/mutation/build"
logs="$top/build/mutation/logs"
# What broken runs leave behind goes with this run.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p "$logs"

# What the tests of a mutation need; the simulator's worlds run no server.
targets_of() {
    case "$(test_of "$1")" in
        worlds) echo sim_worlds ;;
        program_worlds) echo sim_programs_worlds ;;
        histories) echo pserver psckpt psctl ;;
        *) echo pserver psckpt psctl storm_trainer fault_shim sim_worlds sim_programs_worlds ;;
    esac
}

build() {
    local name=$1 mutation=$1 launcher=""
    [ "$name" = none ] && mutation=""
    command -v ccache >/dev/null && launcher=ccache
    # shellcheck disable=SC2046 # the targets are words
    cmake -S "$top" --preset release -B "$folder" -DPS_MUTATE="$mutation" \
        -DPS_HEADERS_ALONE=OFF -DCMAKE_C_COMPILER_LAUNCHER="$launcher" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >"$logs/$name.build" 2>&1 &&
        cmake --build "$folder" --target $(targets_of "$name") >>"$logs/$name.build" 2>&1 &&
        return 0
    tail -20 "$logs/$name.build"
    echo "mutations: $name does not build"
    return 1
}

# One run against the present build: the exit status of the test.
storm() {
    PS_BUILD="$folder" "$here/storm" --seed "$2" --seconds "$seconds" \
        --every 1.5 --report "$logs/$1-storm-$2" >"$logs/$1.storm-$2" 2>&1
}

# The comparison of epochs matters when a former owner wakes up and saves: a storm of those.
zombies() {
    PS_BUILD="$folder" "$here/storm" --seed "$2" --seconds "$seconds" \
        --every 8 --only zombie --kills-min 1 --batch 16 \
        --report "$logs/$1-zombies-$2" >"$logs/$1.zombies-$2" 2>&1
}

power_loss() {
    PS_BUILD="$folder" "$here/power_loss" --seed "$2" --points "$points" \
        >"$logs/$1.power_loss-$2" 2>&1
}

worlds() {
    "$folder/tests/sim_worlds" --seed "$2" --count 500 >"$logs/$1.worlds-$2" 2>&1
}

# Of server programs and barriers.
program_worlds() {
    "$folder/tests/sim_programs_worlds" --seed "$2" --count 500 >"$logs/$1.program_worlds-$2" 2>&1
}

# Files of two trainings in one folder: nothing of it is drawn by a seed.
histories() {
    PS_BIN="$folder/bin" /usr/bin/python3 "$top/tests/integration/blackbox/test_histories.py" \
        >"$logs/$1.histories-$2" 2>&1
}

# The rules that a run says were broken.
broken() {
    local rules="BROKEN [a-z_]+: [0-9]+|(lost|no_recovery) [0-9]+|^world [0-9]+: .*"
    grep -hoE "$rules|^(FAIL|ERROR): [a-z_]+" "$1" |
        grep -v "lost 0" | sort | uniq | head -5 | paste -sd ' '
}

# Runs a test with seed after seed until one notices. Worlds repeat exactly: they get one try.
noticed() {
    local name=$1 test=$2 seed status tries=$seeds
    case "$test" in *worlds | histories) tries=${seeds%% *} ;; esac
    for seed in $tries; do
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

# Which test has to notice which mutation; of the others it is the simulator's worlds.
test_of() {
    case "$1" in
        none) echo all ;;
        journal_sync) echo power_loss ;;
        epoch_compare) echo zombies ;;
        session_lookup) echo storm ;;
        history_compare) echo histories ;;
        program_epoch | untaken_end) echo program_worlds ;;
        *) echo worlds ;;
    esac
}

# Without a mutation the same tests pass.
control() {
    local test seed=${seeds%% *} status
    for test in storm zombies power_loss histories worlds program_worlds; do
        rm -rf "$logs/none-$test-$seed"
        "$test" none "$seed"
        status=$?
        echo "mutations: none: $test, seed $seed: exit $status" \
            "$(broken "$logs/none.$test-$seed")"
        [ $status -eq 0 ] || return $status
    done
}

# All that cmake/PsFlags.cmake lists: none is forgotten here.
all_mutations() {
    sed -n '/PROPERTY STRINGS ""/,/)/p' "$top/cmake/PsFlags.cmake" |
        sed 's/.*PROPERTY STRINGS ""//' | tr -d ')' | xargs
}

wanted=("$@")
# shellcheck disable=SC2207 # names are words
[ $# -gt 0 ] || wanted=(none $(all_mutations))
failed=0
for name in "${wanted[@]}"; do
    build "$name" || { failed=1; continue; }
    if [ "$name" = none ]; then control; else noticed "$name" "$(test_of "$name")"; fi
    status=$?
    [ $status -eq 77 ] && exit 77
    [ $status -eq 0 ] || failed=1
done
if [ $failed -ne 0 ]; then
    echo "mutations: NOT all is as it should be"
    exit 1
fi
echo "mutations: all as it should be"
