#!/usr/bin/env bash
# run.sh without a GPU: it says so and ends with 77; and with the emulator in the GPU's place it
# goes through from the first check to the report, and fails when a check fails.
#
# usage: test_gpu_run.sh PROGRAMS
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

expect() { # SENTENCE CONDITION...
    local sentence=$1
    shift
    if "$@"; then
        echo "ok   $sentence"
    else
        echo "FAIL $sentence"
        failures=$((failures + 1))
    fi
}

if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    echo "there is a GPU: that it is missed cannot be tried"
else
    "$here/run.sh" "$folder/none" >"$folder/none.log" 2>&1
    status=$?
    expect "without a GPU it ends with 77" [ $status -eq 77 ]
    expect "and says why" grep -q '^no GPU: ' "$folder/none.log"
    expect "and has written nothing" [ ! -e "$folder/none" ]
    for program in gpu_kernels gpu_device gpu_bench; do
        [ -x "$programs/$program" ] || continue
        "$programs/$program" >"$folder/$program.log" 2>&1
        status=$?
        expect "$program without a GPU ends with 77" [ $status -eq 77 ]
        expect "and says why" grep -q '^no device: ' "$folder/$program.log"
    done
fi

"$here/run.sh" --emulator "$programs" "$folder/emulator" >"$folder/emulator.log" 2>&1
status=$?
expect "with the emulator every check passes" [ $status -eq 0 ]
[ $status -eq 0 ] || tail -n 40 "$folder/emulator.log"
expect "grids are left out unless asked for" \
    [ "$(grep -c '"row":"grid"' "$folder/emulator/bench.jsonl")" -eq 0 ]
"$programs/gpu_bench_emulator" --size-max 1048576 --samples 1 --grids 1 >"$folder/grids.jsonl"
status=$?
expect "a bench that tries grids goes through" [ $status -eq 0 ]
expect "with its own choice and eleven others of twelve updates" \
    [ "$(grep -c '"row":"grid"' "$folder/grids.jsonl")" -eq 144 ]
expect "the end says how many marks were made" \
    grep -q '3 made, 0 MISSED' "$folder/emulator.log"
expect "there is a picture" grep -q '<svg' "$folder/emulator/results.svg"
expect "and JSON" grep -q '"marks"' "$folder/emulator/results.json"

mkdir "$folder/broken"
for program in gpu_device_emulator gpu_bench_emulator; do
    ln -s "$programs/$program" "$folder/broken/$program"
done
printf '#!/bin/sh\necho "1 failure(s)"\nexit 1\n' >"$folder/broken/gpu_kernels_emulator"
chmod +x "$folder/broken/gpu_kernels_emulator"
"$here/run.sh" --emulator "$folder/broken" "$folder/failed" >"$folder/failed.log" 2>&1
status=$?
expect "other bits than the CPU's end it with 1" [ $status -eq 1 ]
expect "and the mark is missed" grep -q '^MISSED *kernels' "$folder/failed.log"

exit $((failures > 0))
