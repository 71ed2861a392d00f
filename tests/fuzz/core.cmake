# SPDX-License-Identifier: Apache-2.0
ps_fuzz(sessions SOURCES fuzz_sessions.c CORPUS sessions USES ps_core ps_test_support)
ps_fuzz(gradient SOURCES fuzz_gradient.c CORPUS gradient USES ps_core ps_test_support)
ps_fuzz(since SOURCES fuzz_since.c CORPUS since USES ps_core_small ps_engine ps_test_support)
ps_fuzz(row_ages SOURCES fuzz_row_ages.c CORPUS row_ages USES ps_core_small ps_test_support)
