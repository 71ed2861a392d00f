# SPDX-License-Identifier: Apache-2.0
# A part of image.sh: README and tutorial followed literally in a fresh Debian. What they install is
# fetched first; they run in a network of their own, since their ports are those of the pages.

follow() { # NAME COMMAND
    step "following $1"
    unshare --net sh -c 'ip link set lo up && exec "$@"' alone \
        "${builder[@]}" run --isolation chroot "$compiler" -- bash -c "cd /source && $2" \
        >"$work/page.log" 2>&1 || {
        tail -n 40 "$work/page.log"
        fail "the commands of $1 do not work"
    }
}

try_pages() {
    local page commands=tests/integration/python/page_commands.py
    step "installing what the pages want"
    within "$compiler" ./deploy/install-deps.sh demo >"$work/demo.log" 2>&1 || {
        tail -n 20 "$work/demo.log"
        fail "install-deps.sh demo fails"
    }
    for page in README.md docs/tutorial.md; do
        follow "$page" "python3 $commands $page | bash"
    done
    # Enough of its 120 epochs to kill a server on the way.
    follow quickstart "EPOCHS=30 ./deploy/quickstart.sh"
}
