#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds deploy/Dockerfile and runs what comes out; then, in Debians that have nothing else,
# packages.sh tries the Python packages and pages.sh the commands of README and tutorial. Needs
# root, buildah, debootstrap and Debian's packages, some minutes and 5 GB for a while; leaves
# nothing behind. Exit code 77: cannot be tried on this machine, and the reason is printed.
#
#   tests/integration/image/image.sh [--keep FOLDER]     FOLDER keeps the Debian base between runs
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tests/integration/image/packages.sh
. tests/integration/image/pages.sh

skip() {
    echo "image: skipped: $1"
    exit 77
}
fail() {
    echo "image: FAILED: $1" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v buildah >/dev/null || skip "buildah is not installed (deploy/install-deps.sh)"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (deploy/install-deps.sh)"

keep=""
if [ "${1:-}" = --keep ]; then
    keep=$2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/pserver-image-XXXXXX")
base=${keep:-$work}/base
export BUILDAH_ISOLATION=chroot
builder=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
cleanup() {
    "${builder[@]}" rm --all >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT
step() {
    echo "image: ${SECONDS}s: $1"
}

# A base of our own under the name that the Dockerfile asks for: no registry is needed.
if [ ! -e "$base/etc/debian_version" ]; then
    step "making a Debian base"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' | head -n 1)
    [ -n "$mirror" ] || skip "apt has no list of Debian 12 (bookworm): apt-get update"
    debootstrap --variant=minbase bookworm "$base" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        skip "debootstrap failed: $(tail -n 1 "$work/debootstrap.log")"
    rm -rf "$base"/var/cache/apt/archives/*.deb
fi
step "importing the base"
scratch=$("${builder[@]}" from scratch)
"${builder[@]}" add -q "$scratch" "$base" / >/dev/null
"${builder[@]}" config --cmd /bin/bash "$scratch"
"${builder[@]}" commit -q "$scratch" docker.io/library/debian:bookworm-slim >/dev/null
"${builder[@]}" rm "$scratch" >/dev/null
"${builder[@]}" tag docker.io/library/debian:bookworm-slim localhost/debian:bookworm-slim

# The stage that compiles is kept for the pages; the final one takes the programs from there.
build() { # NAME ARGUMENTS...
    "${builder[@]}" bud --isolation chroot --pull-never -t "$@" . >"$work/build.log" 2>&1 || {
        tail -n 40 "$work/build.log"
        fail "the image does not build"
    }
}
step "building"
build pserver:build --target build -f deploy/Dockerfile
sed -e '/ AS build$/,/"--install"/d' -e 's,--from=build,--from=localhost/pserver:build,' \
    deploy/Dockerfile >"$work/Dockerfile"
build pserver:test --target server -f "$work/Dockerfile"

step "running"
user=$("${builder[@]}" inspect --type image --format '{{.OCIv1.Config.User}}' pserver:test)
[ "$user" = 65532:65532 ] || fail "the image's user is $user"
title=$("${builder[@]}" inspect --type image --format '{{.OCIv1.Config.Labels}}' pserver:test)
case "$title" in
*org.opencontainers.image.title:pserver*) ;;
*) fail "the image has no title: $title" ;;
esac
container=$("${builder[@]}" from --pull-never pserver:test)
within() { # CONTAINER COMMAND...
    local where=$1
    shift
    "${builder[@]}" run --isolation chroot "$where" -- "$@"
}
inside() {
    within "$container" "$@"
}
[ "$(inside id -u)" = 65532 ] || fail "the programs run as $(inside id -u)"
inside test -w /data || fail "the user cannot write /data"
! inside test -w /usr/bin || fail "the user can write /usr/bin"
! inside test -e /usr/bin/gcc || fail "the image holds a compiler"
for program in pserver psctl pstrain; do
    inside "/usr/bin/$program" --version || fail "$program does not run"
done
inside /usr/bin/pserver --check-config || fail "the image's own settings are refused"

# A whole life: serve, be told to stop, end well. The log says when; nobody waits for longer.
cat >"$work/life.sh" <<'EOS'
/usr/bin/pserver --listen 127.0.0.1:0 --http 127.0.0.1:0 2>/tmp/log &
for try in $(seq 100); do
    grep -q '"msg":"serving"' /tmp/log && break
    sleep 0.1
done
kill -TERM $!
wait $!
code=$?
cat /tmp/log
exit $code
EOS
inside sh -c "$(cat "$work/life.sh")" >"$work/life.log" 2>&1 || {
    cat "$work/life.log"
    fail "the server does not end well"
}
grep -q '"msg":"serving"' "$work/life.log" || fail "the server never served"
mounted=$("${builder[@]}" mount "$container")
step "the image is well, $(du -sm "$mounted" | cut -f 1) MB"

compiler=$("${builder[@]}" from --pull-never pserver:build)
try_packages
try_pages
step "done"
