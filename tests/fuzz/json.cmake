# SPDX-License-Identifier: Apache-2.0
ps_fuzz(json_reader SOURCES fuzz_json_reader.c CORPUS json USES ps_json)
