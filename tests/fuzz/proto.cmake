# SPDX-License-Identifier: Apache-2.0
ps_fuzz(codec SOURCES fuzz_codec.c CORPUS codec USES ps_proto)
ps_fuzz(optimizer_config SOURCES fuzz_optimizer_config.c CORPUS optimizer_config USES ps_proto)
ps_fuzz(service_codecs SOURCES fuzz_service_codecs.c CORPUS service_codecs USES ps_proto)
ps_fuzz(bundle SOURCES fuzz_bundle.c CORPUS bundle USES ps_proto)
