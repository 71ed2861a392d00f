/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of every service, in one table.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   static.
 */
#ifndef PS_PROTO_METHODS_H
#define PS_PROTO_METHODS_H

/* Operators' calls whose messages are flat (proto/fields.h): clients carry them as bytes, so that a
 * row here is all that the client needs to know of one (docs/add-an-rpc.md). New ones go to the
 * end. */
#define PS_ASKED_TABLE(X)                           \
    X(PS_METHOD_DRAIN, "pserver.v1.Admin", "Drain") \
    X(PS_METHOD_SAVE_MODEL, "pserver.v1.Admin", "SaveModel")

/* One line per call: X(TAG, service, method). Paths are "/service/method". */
#define PS_METHOD_TABLE(X)                                                 \
    X(PS_METHOD_INIT, "pserver.v1.ParameterServer", "InitParam")           \
    X(PS_METHOD_FINISH, "pserver.v1.ParameterServer", "FinishInitParams")  \
    X(PS_METHOD_PUSH, "pserver.v1.ParameterServer", "SendGrad")            \
    X(PS_METHOD_PULL, "pserver.v1.ParameterServer", "GetParam")            \
    X(PS_METHOD_PUSHES, "pserver.v1.ParameterServer", "SendGrads")         \
    X(PS_METHOD_PULLS, "pserver.v1.ParameterServer", "GetParams")          \
    X(PS_METHOD_PUSH_PULL, "pserver.v1.ParameterServer", "PushPull")       \
    X(PS_METHOD_SINCE, "pserver.v1.ParameterServer", "GetParamsSince")     \
    X(PS_METHOD_STATUS, "pserver.v1.Admin", "GetStatus")                   \
    X(PS_METHOD_LIST, "pserver.v1.Admin", "ListParams")                    \
    X(PS_METHOD_SAVE, "pserver.v1.Admin", "SaveCheckpoint")                \
    X(PS_METHOD_BARRIER, "pserver.v1.ParameterServer", "Barrier")          \
    X(PS_METHOD_APPLIED, "pserver.v1.ParameterServer", "LastApplied")      \
    X(PS_METHOD_CLUSTER, "pserver.v1.ParameterServer", "GetCluster")       \
    X(PS_METHOD_BEGIN_INIT, "pserver.v1.ParameterServer", "BeginInit")     \
    X(PS_METHOD_END_INIT, "pserver.v1.ParameterServer", "EndInit")         \
    X(PS_METHOD_JOIN, "pserver.v1.ParameterServer", "JoinWorkers")         \
    X(PS_METHOD_LEAVE, "pserver.v1.ParameterServer", "LeaveWorkers")       \
    X(PS_METHOD_WORKERS, "pserver.v1.ParameterServer", "ListWorkers")      \
    X(PS_METHOD_DEFINE, "pserver.v1.ParameterServer", "DefineParam")       \
    X(PS_METHOD_DROP, "pserver.v1.ParameterServer", "DropParam")           \
    X(PS_METHOD_CONFIGURE, "pserver.v1.ParameterServer", "ConfigureParam") \
    X(PS_METHOD_SET_CLOCKS, "pserver.v1.ParameterServer", "SetClocks")     \
    X(PS_METHOD_CLOCK, "pserver.v1.ParameterServer", "Clock")              \
    X(PS_METHOD_PROGRESS, "pserver.v1.ParameterServer", "Progress")        \
    X(PS_METHOD_SEND_TENSOR, "pserver.v1.Rendezvous", "SendTensor")        \
    X(PS_METHOD_RECV_TENSORS, "pserver.v1.Rendezvous", "RecvTensors")      \
    X(PS_METHOD_STEP, "pserver.v1.Rendezvous", "StepControl")              \
    X(PS_METHOD_ASK, "pserver.v1.Programs", "Ask")                         \
    X(PS_METHOD_TAKE, "pserver.v1.Programs", "Take")                       \
    X(PS_METHOD_ANSWER, "pserver.v1.Programs", "Answer")                   \
    X(PS_METHOD_APPS, "pserver.v1.Programs", "ListApps")                   \
    PS_ASKED_TABLE(X)

#define PS_METHOD_ENUM(TAG, service, method) TAG,
enum ps_method { PS_METHOD_TABLE(PS_METHOD_ENUM) PS_METHOD_COUNT };
#undef PS_METHOD_ENUM

/* "/pserver.v1.ParameterServer/SendGrad" ... Static. */
const char *ps_method_path(enum ps_method method);

#endif
