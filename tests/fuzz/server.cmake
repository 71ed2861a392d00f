ps_fuzz(config_file SOURCES fuzz_config_file.c CORPUS config USES ps_server ps_test_support)
