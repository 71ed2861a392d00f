ps_fuzz(checkpoint_reader SOURCES fuzz_checkpoint_reader.c CORPUS checkpoint
        USES ps_checkpoint ps_test_support)
