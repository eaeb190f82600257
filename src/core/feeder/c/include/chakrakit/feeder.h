/* clang-format off */
/*
 * The chakrakit feeder: gives the nodes of a Chakra execution trace (.et) to a simulator, in an
 * order their dependencies allow.
 *
 *     chakra_feeder* feeder;
 *     if (chakra_feeder_open("rank.0.et", NULL, &feeder) != CHAKRA_OK)
 *         ... chakra_feeder_error(feeder) says why
 *     const chakra_node* node;
 *     int status;
 *     while ((status = chakra_feeder_next(feeder, &node)) == CHAKRA_TAKEN)
 *         ... run it, then chakra_feeder_done(feeder, chakra_node_id(node));
 *     chakra_feeder_close(feeder);
 *
 * A node is ready when every node it depends on is done. Nodes may come in any order in the file.
 * The file is read as needed: a feeder keeps at most `window` nodes that are not taken, and reads
 * past that only while nothing is ready and nothing is in flight. Of the ready nodes read so far,
 * next() gives the one with the lowest id.
 *
 * Nothing here prints, exits, or throws. Functions that can fail return a negative status, and
 * chakra_feeder_error() says in words what was wrong. A feeder belongs to one thread at a time;
 * different feeders are independent.
 */
/* clang-format on */
#ifndef CHAKRAKIT_FEEDER_H
#define CHAKRAKIT_FEEDER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CHAKRA_API __attribute__((visibility("default")))
#else
#define CHAKRA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct chakra_feeder chakra_feeder;

/* A node that was read. It belongs to the feeder and is valid until it is done or the feeder is
 * closed. */
typedef struct chakra_node chakra_node;

enum chakra_status {
    CHAKRA_OK = 0,
    CHAKRA_TAKEN = 1,           /* next: *node is yours */
    CHAKRA_NONE_READY = 2,      /* next: everything that could run is in flight; finish some */
    CHAKRA_FINISHED = 3,        /* next: every node is done */
    CHAKRA_ERROR_FORMAT = -1,   /* the bytes are not a trace; later calls that read fail too */
    CHAKRA_ERROR_DEADLOCK = -2, /* nodes wait for each other or for a missing node; permanent */
    CHAKRA_ERROR_USE = -3,      /* the call makes no sense for this node; nothing has changed */
    CHAKRA_ERROR_IO = -4,       /* the file or the callback could not be read */
    CHAKRA_ERROR_MEMORY = -5
};

/* Fill it with chakra_feeder_defaults() first: fields may be added at the end. */
typedef struct chakra_feeder_options {
    size_t struct_size;
    uint64_t window;        /* nodes read and not yet taken; default 65536, at least 1 */
    int32_t data_deps_only; /* 1: ctrl_deps do not count; default 0 */
    int32_t ignore_missing; /* 1: a dependency that is not in the trace counts as done; default 0 */
} chakra_feeder_options;

/* Puts up to n bytes into buffer. Returns how many, 0 at the end, a negative number on error. */
typedef int64_t (*chakra_read_fn)(void* context, void* buffer, size_t n);

/* The version of the library, such as "0.1.0". */
CHAKRA_API const char* chakra_feeder_version(void);

CHAKRA_API void chakra_feeder_defaults(chakra_feeder_options* options);

/* Opens a plain .et file or pipe and reads its metadata. NULL options are the defaults. *feeder is
 * set on failure too, to be asked for the error and closed; it is NULL only if memory ran out. */
CHAKRA_API int chakra_feeder_open(const char* path, const chakra_feeder_options* options,
                                  chakra_feeder** feeder);

/* The same, for bytes from anywhere: a decompressor, a socket, an archive. */
CHAKRA_API int chakra_feeder_open_callback(chakra_read_fn read, void* context,
                                           const chakra_feeder_options* options,
                                           chakra_feeder** feeder);

CHAKRA_API void chakra_feeder_close(chakra_feeder* feeder);

/* What went wrong in the last call that returned a negative status; "" if none did. Valid until the
 * next call. */
CHAKRA_API const char* chakra_feeder_error(const chakra_feeder* feeder);

/* Takes the ready node with the lowest id: CHAKRA_TAKEN, CHAKRA_NONE_READY, CHAKRA_FINISHED or an
 * error. *node is NULL unless one was taken. */
CHAKRA_API int chakra_feeder_next(chakra_feeder* feeder, const chakra_node** node);

/* As next(), up to n times: returns how many were taken, or an error if the first fails. When 0
 * were taken, chakra_feeder_is_finished() tells whether any will be. */
CHAKRA_API int64_t chakra_feeder_next_batch(chakra_feeder* feeder, const chakra_node** nodes,
                                            size_t n);

/* 1 if every node is done, 0 if not, or an error. */
CHAKRA_API int chakra_feeder_is_finished(chakra_feeder* feeder);

/* Ids of the nodes that are ready, ascending: writes up to n, returns how many there are, or an
 * error. Costs time in proportion to what is ready. */
CHAKRA_API int64_t chakra_feeder_ready(chakra_feeder* feeder, uint64_t* ids, size_t n);

/* Takes the given node, which must be ready, for simulators that choose for themselves. */
CHAKRA_API int chakra_feeder_take(chakra_feeder* feeder, uint64_t id, const chakra_node** node);

/* Gives a taken node back; it is ready again. */
CHAKRA_API int chakra_feeder_push_back(chakra_feeder* feeder, uint64_t id);

/* A taken node is done: nodes that waited for nothing else become ready, and it is forgotten. */
CHAKRA_API int chakra_feeder_done(chakra_feeder* feeder, uint64_t id);

/* The same for n nodes; stops at the first error, with those before it done. */
CHAKRA_API int chakra_feeder_done_batch(chakra_feeder* feeder, const uint64_t* ids, size_t n);

/* A node that was read and is not done, or NULL. */
CHAKRA_API const chakra_node* chakra_feeder_lookup(chakra_feeder* feeder, uint64_t id);

/* Ids, ascending, of nodes read so far that wait for this one: writes up to n, returns how many
 * there are. */
CHAKRA_API int64_t chakra_feeder_children(chakra_feeder* feeder, uint64_t id, uint64_t* ids,
                                          size_t n);

/* How many nodes are taken and not done. */
CHAKRA_API uint64_t chakra_feeder_in_flight(const chakra_feeder* feeder);

/* Fields of a node, and what they are when the trace does not say. Strings end with a NUL and live
 * as long as the node; a name may hold NULs of its own, which cut it short here. */
CHAKRA_API uint64_t chakra_node_id(const chakra_node* node);                /* 0 */
CHAKRA_API const char* chakra_node_name(const chakra_node* node);           /* "" */
CHAKRA_API int32_t chakra_node_type(const chakra_node* node);               /* 0, INVALID_NODE */
CHAKRA_API uint64_t chakra_node_start_time_micros(const chakra_node* node); /* 0 */
CHAKRA_API uint64_t chakra_node_duration_micros(const chakra_node* node);   /* 0 */
CHAKRA_API int32_t chakra_node_is_cpu_op(const chakra_node* node);          /* 0 */
CHAKRA_API int64_t chakra_node_num_ops(const chakra_node* node);            /* 0 */
CHAKRA_API int64_t chakra_node_tensor_size(const chakra_node* node);        /* 0 */
CHAKRA_API int64_t chakra_node_comm_type(const chakra_node* node);          /* -1 */
CHAKRA_API int64_t chakra_node_comm_size(const chakra_node* node);          /* 0 */
CHAKRA_API int64_t chakra_node_comm_src(const chakra_node* node);           /* -1 */
CHAKRA_API int64_t chakra_node_comm_dst(const chakra_node* node);           /* -1 */
CHAKRA_API int64_t chakra_node_comm_tag(const chakra_node* node);           /* 0 */
CHAKRA_API int64_t chakra_node_comm_priority(const chakra_node* node);      /* 0 */
CHAKRA_API const char* chakra_node_pg_name(const chakra_node* node);        /* "", all ranks */

/* 0 or 1 per network dimension: writes up to n, returns how many the trace gives; 0 means all
 * dimensions. */
CHAKRA_API int64_t chakra_node_involved_dim(const chakra_node* node, int64_t* dims, size_t n);

/* Dependencies as the file lists them, repeats included: writes up to n, returns how many there
 * are. */
CHAKRA_API int64_t chakra_node_data_deps(const chakra_node* node, uint64_t* ids, size_t n);
CHAKRA_API int64_t chakra_node_ctrl_deps(const chakra_node* node, uint64_t* ids, size_t n);

/* Any attribute by name. An integer is read from whichever integer member or bool_val it is stored
 * in, a double from any number; `absent` comes back if there is no such attribute or it is of
 * another kind. */
CHAKRA_API int32_t chakra_node_has(const chakra_node* node, const char* attribute);
CHAKRA_API int64_t chakra_node_int(const chakra_node* node, const char* attribute, int64_t absent);
CHAKRA_API double chakra_node_double(const chakra_node* node, const char* attribute, double absent);

/* A string_val or bytes_val: copies up to capacity - 1 bytes and a NUL, returns the whole length;
 * -1 if there is none. */
CHAKRA_API int64_t chakra_node_string(const chakra_node* node, const char* attribute, char* text,
                                      size_t capacity);

/* A list of integers or bools: writes up to n, returns how many there are; -1 if there is no such
 * list. */
CHAKRA_API int64_t chakra_node_int_list(const chakra_node* node, const char* attribute,
                                        int64_t* values, size_t n);

/* The value as the file encodes it, without tag and length. Returns the schema's field number of
 * the member it is stored in (9 is int64_val, 10 int64_list ...), 0 if there is none. */
CHAKRA_API int32_t chakra_node_raw(const chakra_node* node, const char* attribute,
                                   const void** bytes, size_t* size);

#ifdef __cplusplus
}
#endif

#endif
