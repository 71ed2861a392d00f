# SPDX-License-Identifier: Apache-2.0
ps_fuzz(etcd_reply SOURCES fuzz_etcd_reply.c CORPUS etcd_reply USES ps_etcd)
ps_fuzz(kv_file_text SOURCES fuzz_kv_file_text.c CORPUS kv_file_text USES ps_etcd)
