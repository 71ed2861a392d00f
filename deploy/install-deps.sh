#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs every Debian 12 package that the build, the tests and the demo need.
#
#   deploy/install-deps.sh            everything (build, tests, demo)
#   deploy/install-deps.sh build      what compiling the programs and the Python package needs
#   deploy/install-deps.sh demo       that, and what deploy/quickstart.sh needs
#   deploy/install-deps.sh etcd-3.5   optional: a second etcd in build/etcd-3.5, only for tests
#
# Safe to run again: packages that are there already are left alone. Needs root or sudo.
set -euo pipefail

if [ "${1:-all}" = etcd-3.5 ]; then
    exec "$(dirname "$0")/fetch-etcd-3.5.sh"
fi

build_packages=(
    gcc g++ clang cmake ninja-build pkg-config
    libgrpc-dev protobuf-compiler libprotobuf-c-dev protobuf-c-compiler libprotobuf-dev
    libcurl4-openssl-dev libcjson-dev libmicrohttpd-dev libgnutls28-dev libcyaml-dev libyaml-dev
    libisal-dev libssl-dev libxxhash-dev uthash-dev
    python3-dev python3-numpy python3-setuptools python3-wheel dpkg-dev
)
demo_packages=(etcd-server etcd-client curl jq)
test_packages=(
    check valgrind python3 python3-grpcio python3-protobuf python3-yaml
    mypy
    protobuf-compiler-grpc libgrpc++-dev golang-go golang-google-grpc-dev golang-goprotobuf-dev
    nodejs npm prometheus libclang-rt-14-dev clang-format binutils man-db
    iproute2 nftables strace systemd xfsprogs libxxhash0 faketime
)
image_packages=(buildah crun debootstrap ca-certificates)

packages=("${build_packages[@]}")
case "${1:-all}" in
    build) ;;
    demo) packages+=("${demo_packages[@]}") ;;
    all) packages+=("${demo_packages[@]}" "${test_packages[@]}" "${image_packages[@]}") ;;
    *)
        echo "install-deps: unknown set \"$1\": build, demo, all or etcd-3.5" >&2
        exit 2
        ;;
esac

# A tool that is on the PATH without its Debian package (a vendor's node, say) is as good.
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
    case "$package" in
        nodejs) command -v node >/dev/null && continue ;;
        npm) command -v npm >/dev/null && continue ;;
        golang-go) command -v go >/dev/null && continue ;;
    esac
    missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "install-deps: all ${#packages[@]} packages are installed"
    exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
# Daemons that packages start by themselves (etcd, prometheus) are not wanted: tests run their own.
printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee /usr/sbin/policy-rc.d.pserver >/dev/null
"${sudo[@]}" chmod 755 /usr/sbin/policy-rc.d.pserver
if [ ! -e /usr/sbin/policy-rc.d ]; then
    "${sudo[@]}" mv /usr/sbin/policy-rc.d.pserver /usr/sbin/policy-rc.d
    trap '"${sudo[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
else
    "${sudo[@]}" rm -f /usr/sbin/policy-rc.d.pserver
fi
echo "install-deps: installing ${#missing[@]} packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
echo "install-deps: done"
