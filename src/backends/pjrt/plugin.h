/* plugin.h: what the files of the PJRT plugin share.
 *
 * A PJRT device has no addresses: its buffers are handles to arrays that never change, and all it can do is to run
 * whole programs. So an address that cairn is given is only a name (memory.c): it says which stretch of which memory
 * is meant, and what lies there are parts of *values*. A value is an array: a buffer, bytes of the host that wait for
 * a type, or a result of the program that is being collected (pending.c). Calls of kernels add to that program
 * (record.c); it is compiled (program.c) and run when somebody reads. Compiled graphs come as one program (whole.c).
 *
 * Invariants: one lock guards all of it; a value never changes, only where it is kept does; nothing here calls cairn
 * but through cn_host. / */
#ifndef CNI_PJRT_PLUGIN_H
#define CNI_PJRT_PLUGIN_H

#include <cairn/ext/host.h>

#include "api.h"

extern const cn_host *cni_pjrt_host;
extern bool cni_pjrt_waits; /* CAIRN_SYNC */

enum { PJRT_DEVICES = 256 };

/* ---- open.c: the PJRT plugin, its client and devices ---- */
extern const pjrt_api *cni_pjrt;
extern pjrt_client *cni_pjrt_client;

int cni_pjrt_device_count(void);
const char *cni_pjrt_absent(void);
bool cni_pjrt_answers(const char *name);
int cni_pjrt_device_info(int index, cn_device_info *info);
pjrt_device *cni_pjrt_device(int index);
int cni_pjrt_device_id(int index);
cn_device cni_pjrt_device_number(int index); /* what cairn calls it */
void cni_pjrt_numbered(cn_device device);    /* one of them was seen */
/* Names what compiled programs are good for: the platform and its version. */
const char *cni_pjrt_platform(void);
/* 0 where there is no error; else sets cairn's, and gives the plugin's back. */
int cni_pjrt_check(pjrt_error *error, const char *doing);
int cni_pjrt_await(pjrt_event *event, const char *doing); /* waits, and ends the event; NULL: there is none */
void cni_pjrt_close(void);

/* ---- mesh.c: devices that stand for several ---- */
int cni_pjrt_mesh_make(const cn_mesh *mesh, const int *indices); /* its index */
bool cni_pjrt_mesh_of(cn_mesh *mesh, int index);
int cni_pjrt_mesh_partition(cn_partition *p, int index, const cn_desc *d);
const cn_mesh *cni_pjrt_mesh(int index); /* NULL: a device that stands for itself */
int cni_pjrt_index_count(void); /* of devices and meshes */
int cni_pjrt_parts(int index);  /* how many devices it is: 1, or those of a mesh */
int cni_pjrt_part(int index, int k); /* the k-th of them, an index */
void cni_pjrt_mesh_exit(void);
/* What lies at one of the devices of an array that is split: so many elements along each dim, from these on. */
typedef struct pjrt_box {
  int64_t from[CN_MAX_DIMS], shape[CN_MAX_DIMS];
  bool first; /* no device before it has the same */
} pjrt_box;
void cni_pjrt_box(pjrt_box *box, int index, int k, const cn_partition *p, int ndim, const int64_t *shape);
bool cni_pjrt_is_split(const cn_partition *p);
/* Whether programs for meshes are split by Shardy (CAIRN_PJRT_PARTITIONER), and how a split is called there or by XLA's
 * own partitioner; text has PJRT_SHARDING bytes. */
enum { PJRT_SHARDING = 512 };
bool cni_pjrt_shardy(void);
const char *cni_pjrt_sharding(char *text, const cn_mesh *mesh, const cn_partition *p, int ndim);
/* The whole's box to `part`, or back. */
void cni_pjrt_box_copy(char *whole, char *part, bool out, const pjrt_box *box, int ndim, const int64_t *shape,
                       size_t elem);

/* The lock: entries of the backend's table take it. The same thread may take it again. */
void cni_pjrt_lock(void);
void cni_pjrt_unlock(void);

/* ---- value.c: arrays that never change ---- */
typedef struct pjrt_value {
  int refs, pins; /* pins: those of refs that the pending program has */
  int device;     /* index */
  int dtype, ndim; /* dtype CN_DTYPE_NONE: bytes that have no type yet */
  int64_t shape[CN_MAX_DIMS];
  int64_t numel;
  size_t bytes;
  pjrt_buffer *one, **buffers; /* per device that it is on: `one`, or those of a mesh; NULL: it is not there yet */
  int nbuffers;
  cn_partition split; /* on a mesh: how it lies there */
  void *held;             /* bytes that are not on the device yet; NULL with `bytes` 0 too */
  bool pending, failed;   /* a result of the pending program; of one that could not be run */
  int place;              /* for pending.c: where it stands in the program that is being made */
} pjrt_value;

/* The vendor's type for a cairn type; PJRT_NO_TYPE: there is none. */
int cni_pjrt_type(int dtype);
/* Owned; NULL with the error set. */
pjrt_value *cni_pjrt_value_new(int device, int dtype, int ndim, const int64_t *shape);
/* ... of bytes of the host, which are copied; CN_DTYPE_NONE: what they are is said later (value_is). */
pjrt_value *cni_pjrt_value_of(int device, int dtype, int ndim, const int64_t *shape, const void *bytes, size_t size);
pjrt_value *cni_pjrt_value_keep(pjrt_value *v);
void cni_pjrt_value_release(pjrt_value *v);
void cni_pjrt_value_is(pjrt_value *v, int dtype, int ndim, const int64_t *shape);
int cni_pjrt_value_upload(pjrt_value *v); /* to the device, where it is not there yet */
/* Bytes [from, from + size) of it. Waits. The lock is given up meanwhile. */
int cni_pjrt_value_download(pjrt_value *v, void *to, size_t from, size_t size);

/* ---- memory.c: addresses, and what lies there ---- */
void *cni_pjrt_alloc(int index, size_t size, void *stream);
void cni_pjrt_free(int index, void *memory, size_t size, void *stream);
int cni_pjrt_copy_in(int index, void *to, const void *from, size_t size, void *stream);
int cni_pjrt_copy_out(int index, void *to, const void *from, size_t size, void *stream);
int cni_pjrt_sync(int index);
void cni_pjrt_memory_exit(void); /* what tensors hold that are freed later, or never */
/* What lies at a row-major stretch of memory, as an array. Owned; NULL with the error set. */
pjrt_value *cni_pjrt_read(int index, const void *at, int dtype, int ndim, const int64_t *shape);
/* The stretch is the value from now on. */
int cni_pjrt_write(int index, void *at, pjrt_value *v);
/* The value that begins there; borrowed. NULL: none does. */
const pjrt_value *cni_pjrt_lies_at(const void *at);
/* The elements around [first, end) that are worth to be looked at together, those of one value if that has them all:
 * where they begin, and how many of elem bytes they are. */
int cni_pjrt_around(const char *first, const char *end, size_t elem, const char **begin, int64_t *count);

/* ---- strided.c: tensors whose elements lie apart ---- */
pjrt_value *cni_pjrt_read_tensor(int index, const cn_desc *d);
int cni_pjrt_write_tensor(int index, const cn_desc *d, pjrt_value *v);

/* ---- pending.c: the program that is being collected ---- */
/* An operand: a value; or a number (value NULL); or nothing (tag CN_V_NONE). */
typedef struct pjrt_operand {
  pjrt_value *value;
  cn_value number;
} pjrt_operand;

static inline pjrt_operand cni_pjrt_operand(pjrt_value *v)
{
  pjrt_operand o = {v, {CN_V_NONE, 0, {0}}};
  return o;
}

/* A call to be collected. */
typedef struct pjrt_call {
  const cn_op *op;
  const cn_value *args; /* tensors have a tag and a count alone */
  const pjrt_operand *in;
  int nargs, nin, nout;
  bool draws;
  uint64_t seed, offset, counters; /* where it draws */
} pjrt_call;

/* The place of a tensor among arguments: the tensor itself is an operand. */
extern const cn_value cni_pjrt_slot;

/* Adds a call; out: nout values of the results' types, which become its results. */
int cni_pjrt_collect(int index, const pjrt_call *call, pjrt_value *const *out);
/* One result of one op, by name. */
pjrt_value *cni_pjrt_op(int index, const char *op, const cn_value *args, int nargs, const pjrt_operand *in, int nin,
                        int dtype, int ndim, const int64_t *shape);
/* v in another shape of as many elements; len of its elements along a dim, every step-th one. v is taken over. Owned;
 * NULL on failure. */
pjrt_value *cni_pjrt_shaped(int index, pjrt_value *v, int ndim, const int64_t *shape);
pjrt_value *cni_pjrt_sliced(int index, pjrt_value *v, int dim, int64_t from, int64_t len, int64_t step);
/* v split like `like`, which is of its shape; on a mesh. v is taken over. Owned; NULL on failure. */
pjrt_value *cni_pjrt_split_like(int index, pjrt_value *v, const pjrt_value *like);
int cni_pjrt_flush(int index); /* runs what was collected */
int cni_pjrt_settle(int index); /* ... where that has become long */
void cni_pjrt_pending_exit(void);

/* ---- program.c: compiled programs ---- */
typedef struct pjrt_code pjrt_code;
/* Finds or compiles a text for a device: in memory, on disk, by the plugin. Borrowed: it stays until the next one is
 * looked for, or as long as somebody keeps it. */
int cni_pjrt_code_find(pjrt_code **code, int index, const char *text, size_t size, size_t nresults);
/* Queues a run. args: narguments of values that are on the device or go there now; results become the out values'
 * content. keep: arguments that must outlive the run although the program would write its results over them; NULL:
 * none. */
int cni_pjrt_code_run(pjrt_code *code, int index, pjrt_value *const *args, size_t nargs, const bool *keep,
                      pjrt_value *const *out, size_t nout);
void cni_pjrt_code_keep(pjrt_code *code);
void cni_pjrt_code_release(pjrt_code *code); /* NULL is fine */
int cni_pjrt_code_wait(int index); /* for all queued runs; reports what failed */
void cni_pjrt_code_exit(void);

/* ---- record.c, fallback.c: kernels ---- */
int cni_pjrt_can_any(const cn_call *call, cn_plan *plan);
int cni_pjrt_run_any(cn_call *call);
int cni_pjrt_run_copy(cn_call *call);
int cni_pjrt_updates(bool begin, const void *unless);
int cni_pjrt_can_host(const cn_call *call, cn_plan *plan);
int cni_pjrt_on_host(cn_call *call);

/* ---- whole.c: graphs as one program ---- */
int cni_pjrt_graph_compile(int index, void **executable, const cn_whole_graph *graph);
int cni_pjrt_graph_launch(int index, void *executable, const cn_graph_launch *run);
void cni_pjrt_graph_free(int index, void *executable);

#endif
