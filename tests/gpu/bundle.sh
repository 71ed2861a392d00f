#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the programs, the plugins and the libraries that they need into one folder, for a machine
# that has none of them. The C library stays behind: the other machine's own is to be this one's age
# or newer.
#
#   tests/gpu/bundle.sh PROGRAMS FOLDER      for instance build/release/bin build/bundle
set -euo pipefail

megabytes_max=60
programs=$1
folder=$2
left_behind='linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so|libresolv\.so'

rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib"
for name in pserver psctl psckpt psbench pstrain libpserver_cuda.so libpserver_emu.so; do
    if [ -e "$programs/$name" ]; then
        cp "$programs/$name" "$folder/bin/$name"
    elif [ "$name" != libpserver_cuda.so ] && [ "$name" != libpserver_emu.so ]; then
        echo "missing: $programs/$name"
        exit 1
    else
        echo "left out, this build has none: $name"
    fi
done
ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev "/($left_behind)" | while read -r library; do
    cp -L "$library" "$folder/lib/"
done
chmod -R u+w "$folder"
find "$folder" -type f -exec strip --strip-unneeded {} +
size=$(du -sm "$folder" | cut -f1)
echo "$folder: $size MiB, $(find "$folder/lib" -type f | wc -l) libraries"
if [ "$size" -gt $megabytes_max ]; then
    echo "more than $megabytes_max MiB"
    exit 1
fi
