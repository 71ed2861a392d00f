#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts etcd 3.5 (Debian 13's package) into build/etcd-3.5, for tests against a second version.
#
# Nothing of the system changes: apt works in folders of its own, and the package is only unpacked.
# The mirror is the one that this machine's apt uses for its own release.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=trixie
target=$PWD/build/etcd-3.5
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

if [ -x "$target/usr/bin/etcd" ]; then
    echo "etcd-3.5: already in $target"
    exit 0
fi

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' \
    | awk -v codename="$codename" '$1 == codename { print $2; exit }')
if [ -z "$mirror" ]; then
    echo "etcd-3.5: apt has no source for $codename to take the mirror from" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/parts"
touch "$work/status"
echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
apt_options=(
    -o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status"
    -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives"
    -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts="$work/parts"
    -o APT::Get::List-Cleanup=false -o Acquire::Languages=none
)
if [ "$(id -u)" -eq 0 ]; then
    apt_options+=(-o APT::Sandbox::User=root)
fi
apt-get "${apt_options[@]}" update -qq
(cd "$work" && apt-get "${apt_options[@]}" download -qq etcd-server)

rm -rf "$target"
mkdir -p "$target"
dpkg -x "$work"/etcd-server_*.deb "$target"
"$target/usr/bin/etcd" --version | head -1
echo "etcd-3.5: in $target"
