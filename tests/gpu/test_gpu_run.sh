#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh without a GPU: it says so and ends with 77; with the emulator in the GPU's place it goes
# through from the first check to the report, and fails when a check fails; and on machines that are
# made up of stubs it finds its way around what is missing.
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

# ---- Machines of stubs: only what the script does is tried ----

stub() { # NAME, its commands from standard input
    { echo '#!/bin/bash' && cat; } >"$stubs/$1"
    chmod +x "$stubs/$1"
}

# A machine with everything, whose programs say what they are told to.
machine() {
    stubs=$(mktemp -d "$folder/machine.XXXXXX")
    mkdir "$stubs/programs"
    python3 -c "import json, sys; sys.path.insert(0, '$here'); import test_gpu_report as made
print('\n'.join(json.dumps(row) for row in made.good_rows()
                if row['row'] not in ('check', 'torch', 'torch_small')))" >"$stubs/rows"
    stub nvidia-smi <<'END'
case $* in
*compute_cap*) echo 9.0 ;;
*memory.free*) echo 80000 ;;
*) echo "GPU 0: made up" ;;
esac
END
    stub nvcc <<<"exit 0"
    stub compute-sanitizer <<<'while [ "${1#--}" != "$1" ]; do case $1 in
*=*) shift ;; --tool | --error-exitcode | --print-limit) shift 2 ;; esac; done; exec "$@"'
    stub cmake <<END
if [ "\$1" = --build ]; then ln -sfn "$stubs/programs" "\$2/tests"; exit; fi
echo "\$*" >"$stubs/cmake.arguments"
mkdir -p "\$4"
END
    for program in gpu_kernels gpu_device; do
        stub programs/$program <<<"printf 'all\tis \"well\"\n'"
    done
    stub programs/gpu_bench <<<"echo \"\$*\" >$stubs/bench.arguments; cat $stubs/rows"
}

run_on_stubs() { # LOG
    PATH=$stubs:$PATH OUT=$stubs/out "$here/run.sh" "$stubs/results" >"$stubs/$1" 2>&1
    status=$?
}

machine
run_on_stubs all.log
expect "where all is well it ends with 0" [ $status -eq 0 ]
[ $status -eq 0 ] || tail -n 40 "$stubs/all.log"
expect "and has compared all but torch" \
    grep -q '^12 made, 0 MISSED, 2 not compared' "$stubs/all.log"
expect "it builds for the card that is there" grep -q 'ARCHITECTURES=90-real' \
    "$stubs/cmake.arguments"
expect "four files come out" \
    [ "$(cd "$stubs/out" && echo ./*)" = "./logs.txt ./results.json ./results.svg ./results.txt" ]
expect "with what the checks printed" grep -q 'all.is "well"' "$stubs/out/logs.txt"

machine
stub nvcc <<<'case $* in *allow-unsupported*) exit 0 ;; esac; exit 1'
stub compute-sanitizer <<<'echo "========= Error: Device not supported"; exit 1'
sed -i 's/80000/4000/' "$stubs/nvidia-smi"
run_on_stubs poor.log
expect "a compiler that nvcc does not know is allowed" \
    grep -q 'CUDA_FLAGS=-allow-unsupported-compiler' "$stubs/cmake.arguments"
expect "a device that the sanitizer does not know is not an error" \
    grep -q '^8 made, 0 MISSED, 6 not compared' "$stubs/poor.log"
expect "on a small device parameters are small" \
    grep -q 'size-max 268435456' "$stubs/bench.arguments"

machine
for program in cmake nvcc; do stub $program <<<"exit 1"; done
run_on_stubs unbuilt.log
expect "without a build it ends with 1" [ $status -eq 1 ]
expect "and says so" grep -q '^the build failed' "$stubs/unbuilt.log"

machine
stub programs/gpu_bench <<<"head -c -30 $stubs/rows; exit 3"
run_on_stubs cut.log
expect "a bench that breaks in the middle of a line ends it with 1" [ $status -eq 1 ]
expect "and what came before is in the report" grep -q '^adamw  *f32' "$stubs/out/results.txt"
expect "which says what was cut" grep -q '^bench.jsonl was cut short' "$stubs/out/results.txt"

machine
stub compute-sanitizer <<END
echo \$\$ >"$stubs/begun.new"
mv "$stubs/begun.new" "$stubs/begun"
exec sleep 60
END
PATH=$stubs:$PATH OUT=$stubs/out "$here/run.sh" "$stubs/results" >"$stubs/killed.log" 2>&1 &
for ((i = 0; i < 300; i++)); do
    [ ! -e "$stubs/begun" ] || break
    sleep 0.1
done
kill $!
kill "$(cat "$stubs/begun")"
wait $!
status=$?
expect "when it is cut short the report is there already" \
    grep -q '^adamw  *f32' "$stubs/out/results.txt"
expect "and it ends with 1, since not all was looked at" [ $status -eq 1 ]

exit $((failures > 0))
