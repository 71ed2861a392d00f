ps_fuzz(sessions SOURCES fuzz_sessions.c CORPUS sessions USES ps_core ps_test_support)
ps_fuzz(gradient SOURCES fuzz_gradient.c CORPUS gradient USES ps_core ps_test_support)
