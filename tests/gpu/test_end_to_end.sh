#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh and end_to_end.sh with the emulator in the GPU's place.
#
# usage: test_end_to_end.sh PROGRAMS
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$here/bundle.sh" "$1" "$folder/bundle" || exit 1
"$here/end_to_end.sh" --device emu "$folder/bundle" || exit 1

"$here/end_to_end.sh" --device emu "$folder" >"$folder/nothing.log" 2>&1
status=$?
if [ $status -ne 1 ]; then
    echo "without programs it ends with $status"
    exit 1
fi
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    "$here/end_to_end.sh" "$folder/bundle" >"$folder/none.log" 2>&1
    status=$?
    if [ $status -ne 77 ] || ! grep -q '^no GPU: ' "$folder/none.log"; then
        echo "without a GPU it ends with $status"
        exit 1
    fi
fi
