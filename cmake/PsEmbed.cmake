# SPDX-License-Identifier: Apache-2.0
# Turns a file into a C source with its bytes:
#   cmake -D INPUT=file -D OUTPUT=file.c -D NAME=ps_thing -P PsEmbed.cmake
# defines ps_thing_data[] and ps_thing_size.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n    " bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT}
"#include <stddef.h>
#include <stdint.h>

extern const uint8_t ${NAME}_data[];
extern const size_t ${NAME}_size;

const uint8_t ${NAME}_data[] = {
    ${bytes}
};
const size_t ${NAME}_size = sizeof ${NAME}_data;
")
