# SPDX-License-Identifier: Apache-2.0
# Lets a test program run with the etcd on the PATH and once more with etcd 3.5, where
# deploy/install-deps.sh etcd-3.5 has put one. Without an etcd the test counts as skipped.
function(ps_etcd_versions name)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
    add_test(NAME ${name}_3_5 COMMAND ${name})
    set_tests_properties(${name}_3_5 PROPERTIES LABELS integration SKIP_RETURN_CODE 77 ENVIRONMENT
        "${ps_check_patience};PSERVER_TEST_ETCD=${CMAKE_SOURCE_DIR}/build/etcd-3.5/usr/bin/etcd")
endfunction()
