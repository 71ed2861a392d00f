# SPDX-License-Identifier: Apache-2.0
# Writes a C source that says which commit a program was built from, and only when that changed:
#   cmake -D SOURCE_DIR=tree -D OUTPUT=file.c -D NAME=ps_thing -P PsCommit.cmake
# defines NAME[]. A tree that git does not know gives "unknown".
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --tags
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit MATCHES "^[A-Za-z0-9._/-]+$")
    set(commit unknown)
endif()
set(text "extern const char ${NAME}[];\n\nconst char ${NAME}[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
