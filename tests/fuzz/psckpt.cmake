# SPDX-License-Identifier: Apache-2.0
ps_fuzz(tensor_reader SOURCES fuzz_tensor_reader.c CORPUS tensors USES ps_psckpt ps_test_support)
