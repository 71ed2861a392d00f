# SPDX-License-Identifier: Apache-2.0
ps_fuzz(checkpoint_reader SOURCES fuzz_checkpoint_reader.c CORPUS checkpoint
        USES ps_checkpoint ps_test_support)
ps_fuzz(journal_reader SOURCES fuzz_journal_reader.c CORPUS journal
        USES ps_checkpoint ps_test_support)
ps_fuzz(journal_definition SOURCES fuzz_journal_definition.c CORPUS journal_definition
        USES ps_checkpoint)
ps_fuzz(journal_rounds SOURCES fuzz_journal_rounds.c CORPUS journal_rounds USES ps_checkpoint)
