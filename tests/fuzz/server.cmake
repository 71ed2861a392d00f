# SPDX-License-Identifier: Apache-2.0
ps_fuzz(config_file SOURCES fuzz_config_file.c CORPUS config USES ps_server ps_test_support)
ps_fuzz(frames SOURCES fuzz_frames.c CORPUS frames USES ps_front ps_test_support)
