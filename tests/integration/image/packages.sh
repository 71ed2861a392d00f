# SPDX-License-Identifier: Apache-2.0
# A part of image.sh: the wheel and the Debian package, each installed where no compiler is, train
# five steps against a server of the image.

five_steps='
import sys
import numpy as np
import pserver
with pserver.connect(sys.argv[1], wait=60.0) as ps:
    assert ps.initialize({"w": np.ones((2, 3), np.float32)}, pserver.SGD(lr=0.1))
    values = ps.pull()
    for step in range(5):
        ps.push_pull({"w": np.ones((2, 3), np.float32)}, into=values)
    assert ps.versions["w"] == 5 and abs(values["w"] - 0.5).max() < 1e-6, values
print("five steps with", pserver.__file__)
'

serve_five() { # COMMAND...: in the trainer's container, with the address of a new server behind it
    # The server ends with the pipe that this shell holds, however the test ends.
    exec {stop}> >(inside sh -c 'unset PSERVER_DATA_DIR
        /usr/bin/pserver --listen 127.0.0.1:0 --http 127.0.0.1:0 &
        read -r _
        kill $!
        wait $!' 2>"$work/server.log")
    local served=$! address="" _
    for _ in $(seq 100); do
        address=$(sed -nE 's/.*"msg":"listening".*"address":"([^"]*)".*/\1/p' "$work/server.log")
        [ -z "$address" ] || break
        sleep 0.1
    done
    [ -n "$address" ] || fail "the server for the packages does not listen"
    within "$trainer" "$@" "$address" || fail "the package does not train"
    exec {stop}>&-
    wait "$served" || fail "the server for the packages does not end well"
}

install_in_trainer() { # PACKAGES...
    within "$trainer" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends "$@" >"$work/apt.log" 2>&1 || {
        tail -n 5 "$work/apt.log"
        fail "apt does not install $*"
    }
}

try_packages() {
    step "making the Python packages"
    within "$compiler" cmake --build build/release --target python_packages \
        >"$work/packages.log" 2>&1 || {
        tail -n 20 "$work/packages.log"
        fail "the Python packages cannot be made"
    }
    trainer=$("${builder[@]}" from --pull-never docker.io/library/debian:bookworm-slim)
    "${builder[@]}" copy -q --from "$compiler" "$trainer" /source/build/release/python/dist /dist \
        >/dev/null
    within "$trainer" apt-get update -qq
    step "trying the wheel"
    install_in_trainer python3-numpy python3-venv
    within "$trainer" python3 -m venv --system-site-packages /venv
    within "$trainer" sh -c '/venv/bin/pip install --quiet --no-index /dist/*.whl'
    serve_five /venv/bin/python -c "$five_steps"
    step "trying the Debian package"
    within "$trainer" rm -rf /venv
    install_in_trainer "$(within "$trainer" sh -c 'echo /dist/*.deb')"
    serve_five python3 -c "$five_steps"
    ! within "$trainer" sh -c 'command -v cc gcc clang' 2>/dev/null || fail "a compiler was there"
}
