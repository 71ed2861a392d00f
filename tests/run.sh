#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds, runs every test. The one test command of the project.
#
#   tests/run.sh              every tier (TESTING.md says what each is for)
#   tests/run.sh quick        the release tier only
#   tests/run.sh TIER...      these tiers: release image asan clang tsan valgrind
#
# A tier is one line with its time; its output lies in build/logs/TIER.log. Then come the tests that
# were skipped, each with its tier: they count neither as passed nor as failed. The last line is the
# sum over all tiers: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
logs=build/logs
passed=0
failed=0
skipped=()
again=()

build() { # PRESET TARGET
    cmake --preset "$1" && cmake --build --preset "$1" --target "$2" -j "$jobs"
}

# Many tests wait more than they compute, so more of them than cores run at once.
tier_release() {
    build release all || return 1
    ctest --preset release -LE '^image$' -j $((2 * jobs)) || run_alone release
}

# A few that failed beside others run once more, one by one: a machine that is too busy for them is
# no defect of the product. They are named at the end, with what they printed, and are to be mended.
# Tiers of sanitizers have no second run: a race that shows once is there.
run_alone() { # PRESET
    local failed
    failed=$(wc -l <"build/$1/Testing/Temporary/LastTestsFailed.log")
    [ "$failed" -le 3 ] && ctest --preset "$1" --rerun-failed -j 1
}

# The container image, which builds everything once more. Much of its time the network takes.
tier_image() {
    build release all && nice ctest --preset release -L '^image$'
}

tier_asan() {
    build asan all && ctest --preset asan -L '^(unit|asan)$' -j $((2 * jobs))
}

# The other compiler has other warnings, and they are errors. It reads what the release tier has
# built, and makes nothing.
tier_clang() {
    build release all && tests/support/clang_warnings.py build/release
}

# The sanitizer needs its addresses where it expects them, which random layouts may deny it.
tier_tsan() {
    local fixed_layout=()
    if setarch -R true 2>/dev/null; then
        fixed_layout=(setarch -R)
    fi
    build tsan tests_tsan && "${fixed_layout[@]}" ctest --preset tsan -L '^tsan$' -j $((2 * jobs))
}

# Check forks each test, so an error ends one child and is reported like any other failure. Programs
# run side by side: what one has printed comes in one piece, behind its name.
valgrind_one() { # NAME
    local said status=0
    said=$(CK_DEFAULT_TIMEOUT=240 CK_TIMEOUT_MULTIPLIER=5 timeout 3600 \
        valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
        "build/release/tests/$1" 2>&1) || status=$?
    if [ "$status" -eq 0 ]; then
        echo "valgrind passed: $1"
    else
        printf 'valgrind FAILED: %s (exit code %d)\n%s\n' "$1" "$status" "$(tail -n 60 <<<"$said")"
    fi
}
export -f valgrind_one

tier_valgrind() {
    build release all || return 1
    local names count bad
    names=$(ctest --preset release -N -L '^valgrind$' | sed -n 's/^ *Test *#[0-9]*: //p')
    xargs -P "$jobs" -I{} bash -c 'valgrind_one {}' <<<"$names" 2>&1 | tee "$logs/valgrind.tests"
    count=$(wc -l <<<"$names")
    bad=$((count - $(grep -c '^valgrind passed: ' "$logs/valgrind.tests")))
    echo "valgrind: tests passed, $bad tests failed out of $count"
    [ "$bad" -eq 0 ]
}

# What failing tests have printed, at most 60 lines of each. Other tests run beside them: theirs
# ends where ctest speaks of the next one.
print_failures() { # LOG
    awk '/^ *[0-9]+\/[0-9]+ Test +#/ { left = /\*\*\*/ && !/Skipped/ ? 60 : 0 }
         /^ +Start +[0-9]+: / { next }
         /^valgrind FAILED/ { left = 60 }
         /^valgrind passed/ { left = 0 }
         left > 0 { print; left-- }' "$1"
    grep -E ' error: |^FAILED: ' "$1" | head -20
}

# Runs one tier, and leaves how it ended and how many seconds it took.
run_tier() { # NAME
    local start=$SECONDS status=0
    "tier_$1" >"$logs/$1.log" 2>&1 || status=$?
    echo "$status $((SECONDS - start))" >"$logs/$1.end"
}

# Adds what a tier said to the sum. A build that fails is one failure.
count_tier() { # NAME
    local log=$logs/$1.log status seconds bad=0 count=1 left_out failed_once first="" last=""
    read -r status seconds <"$logs/$1.end"
    # The first is of all tests, and the last of those that ran again, where some did.
    grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log" >"$log.sums"
    last=$(tail -1 "$log.sums")
    first=$(head -1 "$log.sums")
    if [ -n "$last" ]; then
        bad=$(sed -E 's/.* ([0-9]+) tests failed.*/\1/' <<<"$last")
        count=$(sed -E 's/.* out of ([0-9]+).*/\1/' <<<"$first")
    fi
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
        count=$((count > 0 ? count : 1))
    fi
    mapfile -t left_out < <(sed -nE 's/^.* Test +#[0-9]+: ([^ ]+) .*\*{3}Skipped.*/\1/p' "$log")
    skipped+=("${left_out[@]/#/$1: }")
    count=$((count - ${#left_out[@]}))
    passed=$((passed + count - bad))
    failed=$((failed + bad))
    printf '%-9s %4d passed, %d failed  %4d s\n' "$1" $((count - bad)) "$bad" "$seconds"
    if [ "$first" != "$last" ] && [ "$bad" -eq 0 ]; then
        mapfile -t failed_once < <(sed -nE \
            's/^.* Test +#[0-9]+: ([^ ]+) .*\*{3}(Failed|Timeout|Exception).*/\1/p' "$log")
        again+=("${failed_once[@]/#/$1: }")
        print_failures "$log"
    fi
    if [ "$bad" -ne 0 ]; then
        print_failures "$log"
        tail -12 "$log"
    fi
}

main() {
    local tiers=("$@") name start=$SECONDS beside=""
    case "${1:-all}" in
        all) tiers=(release image asan clang tsan valgrind) ;;
        quick) tiers=(release) ;;
    esac
    for name in "${tiers[@]}"; do
        if ! declare -F "tier_$name" >/dev/null; then
            echo "run.sh: there is no tier $name; see the first lines of tests/run.sh" >&2
            exit 2
        fi
    done
    mkdir -p "$logs"
    if ! ./deploy/install-deps.sh; then
        echo "run.sh: the packages could not be installed"
        echo "0 passed, 1 failed"
        exit 1
    fi
    printf '%-9s %27d s\n' packages $((SECONDS - start))
    for name in "${tiers[@]}"; do
        if [ "$name" = image ]; then
            run_tier image &
            beside=$!
            continue
        fi
        run_tier "$name"
        count_tier "$name"
    done
    if [ -n "$beside" ]; then
        wait "$beside"
        count_tier image
    fi
    printf '%-9s %27d s\n' all $((SECONDS - start))
    if [ ${#again[@]} -gt 0 ]; then
        echo "passed at their second run, alone, and are to be mended:"
        printf '  %s\n' "${again[@]}"
    fi
    if [ ${#skipped[@]} -gt 0 ]; then
        echo "${#skipped[@]} skipped (deploy/install-deps.sh etcd-3.5 is what the etcd ones want):"
        printf '  %s\n' "${skipped[@]}"
    fi
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

main "$@"
