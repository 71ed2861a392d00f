/* SPDX-License-Identifier: Apache-2.0 */
/* Options of psclient_open out of keyword arguments, by a table: an option more is a row more.
 * PyArg_ParseTupleAndKeywords would need each option in four places, and its order in all of
 * them. */
#include "python_client.h"

#include <stddef.h>
#include <string.h>

/* How the table's rows are read: what type the Python object has, and the field. */
enum option_kind { TEXT, MILLISECONDS_OR_BYTES, NUMBER, SHARE };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
};

/* One for each type that a field may have. */
#define TEXT_OPTION(name)                                    \
    {                                                        \
#name, TEXT, offsetof(struct psclient_options, name) \
    }
#define LONG_OPTION(name)                                                     \
    {                                                                         \
#name, MILLISECONDS_OR_BYTES, offsetof(struct psclient_options, name) \
    }
#define ENUM_OPTION(name)                                      \
    {                                                          \
#name, NUMBER, offsetof(struct psclient_options, name) \
    }

/* The order is free. The names of psclient.h, which are also those of connect() where it passes
 * them on. Options that are None keep the library's default, as if they had not been named. */
static const struct option table[] = {
    TEXT_OPTION(etcd),
    TEXT_OPTION(etcd_user),
    TEXT_OPTION(etcd_password),
    TEXT_OPTION(etcd_password_file),
    TEXT_OPTION(etcd_ca),
    TEXT_OPTION(etcd_cert),
    TEXT_OPTION(etcd_key),
    TEXT_OPTION(servers),
    TEXT_OPTION(job),
    TEXT_OPTION(busy_poll),
    TEXT_OPTION(client_id),
    TEXT_OPTION(placement),
    TEXT_OPTION(tls_ca),
    TEXT_OPTION(tls_cert),
    TEXT_OPTION(tls_key),
    TEXT_OPTION(tls_server_name),
    TEXT_OPTION(token_file),
    LONG_OPTION(open_timeout_ms),
    LONG_OPTION(split_bytes),
    LONG_OPTION(lock_ttl_ms),
    LONG_OPTION(feedback_bytes_max),
    ENUM_OPTION(ack),
    ENUM_OPTION(encoding),
    ENUM_OPTION(reply_encoding),
    ENUM_OPTION(shared_memory),
    {"top_k_share", SHARE, offsetof(struct psclient_options, top_k_share)},
};
#undef TEXT_OPTION
#undef LONG_OPTION
#undef ENUM_OPTION

/* Enums of the header have the size of an int with every compiler that Python knows; the table
 * relies on it for all of them. */
_Static_assert(sizeof(enum psclient_ack) == sizeof(int), "the table writes enums as numbers");

/* Values go in by memcpy: the table knows a place, not a type. A conversion that failed has left
 * its exception, which is asked for once at the end. */
static int set_option(const struct option *option, PyObject *value, char *place)
{
    if (option->kind == TEXT) {
        const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
        memcpy(place, &text, sizeof text);
    } else if (option->kind == MILLISECONDS_OR_BYTES) {
        uint64_t number = PyLong_AsUnsignedLongLong(value);
        memcpy(place, &number, sizeof number);
    } else if (option->kind == NUMBER) {
        int number = (int)PyLong_AsLong(value);
        memcpy(place, &number, sizeof number);
    } else {
        double share = PyFloat_AsDouble(value);
        memcpy(place, &share, sizeof share);
    }
    return PyErr_Occurred() != NULL ? -1 : 0;
}

/* The number of options found is compared with the number given: an unknown name is a mistake, not
 * to be passed over. */
int ps_python_read_options(PyObject *keywords, struct psclient_options *options)
{
    /* Of the keywords, that is: None counts as named. */
    Py_ssize_t found = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        PyObject *value = PyDict_GetItemString(keywords, table[i].name);
        if (value == NULL)
            continue; /* not named */
        found++;
        if (value != Py_None && set_option(&table[i], value, (char *)options + table[i].offset))
            return -1;
    }
    if (found == PyDict_Size(keywords))
        return 0;
    PyErr_SetString(PyExc_TypeError, "Client: an option that libpsclient does not have");
    return -1;
}
