ps_fuzz(plain_reader SOURCES fuzz_plain_reader.c CORPUS plain USES ps_psckpt ps_test_support)
