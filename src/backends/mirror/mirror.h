/* mirror.h: what the files of the mirror backend show each other and init.c.
 *
 * Place in the flow: mirror.c is the backend: memory, copies, kernels. A call is copied into a job (mirror_job.c) and
 * queued on a stream (mirror_stream.c), whose thread runs jobs in order. Invariant: a job owns copies of everything it
 * needs but the memory of tensors, which the stream's order keeps alive. */
#ifndef CNI_MIRROR_MIRROR_H
#define CNI_MIRROR_MIRROR_H

#include <cairn/ext/host.h>

const cn_backend *cni_mirror_backend(const cn_host *host);
extern const cn_host *cni_mirror_host;
extern bool cni_mirror_waits; /* CAIRN_SYNC=1: after every call */

enum { MIRROR_DEVICES = 2, MIRROR_MESSAGE = 400 };

/* Device pointers: a tag in bits that no address of a process has. Pointer arithmetic keeps it. */
#define MIRROR_TAG ((uintptr_t)0x4d << 56)
static inline void *mirror_hide(void *memory) { return (void *)((uintptr_t)memory ^ MIRROR_TAG); }
static inline void *mirror_show(const void *memory) { return (void *)((uintptr_t)memory ^ MIRROR_TAG); }

/* For tests: pinned blocks in use and copies queued from such so far, of all devices; and how many blocks there may
 * be from now on. */
void cni_mirror_pinned(size_t *blocks, size_t *copies);
void cni_mirror_pinned_limit(size_t blocks);

/* ---- streams and events (mirror_stream.c) ---- */
/* The head of everything that is queued. It is run, then its block is released. */
typedef struct mirror_job {
  struct mirror_job *next;
  size_t size;                          /* bytes of the block this stands in */
  void (*run)(struct mirror_job *, int index); /* NULL: only the block is released */
  void (*mark)(struct mirror_job *); /* ... said in one moment with the stream's having done it; short; may be NULL */
} mirror_job;

/* Puts a job at the end of a stream (NULL: the device's own), which owns it then. False when the stream's thread cannot
 * be started: then nothing ever ran there. */
bool cni_mirror_enqueue(int index, void *stream, mirror_job *job);
/* A copy of `bytes` between host addresses, behind what is queued. False: it could not be queued. */
bool cni_mirror_enqueue_copy(int index, void *stream, void *to, const void *from, size_t bytes);
/* Keeps the first late failure of a device until a wait reports it. */
void cni_mirror_keep_failure(int index, int code, const char *message);
void cni_mirror_drain(int index, void *stream); /* waits, reports nothing */
int cni_mirror_sync(int index);                 /* all streams; reports what failed since the last report */
void cni_mirror_stop(void);                     /* ends all threads, after their work */

void *cni_mirror_stream_new(int index, int priority);
void cni_mirror_stream_free(int index, void *stream);
int cni_mirror_stream_sync(int index, void *stream);
int cni_mirror_stream_query(int index, void *stream);
void *cni_mirror_event_new(int index, bool timing);
void cni_mirror_event_free(int index, void *event);
int cni_mirror_event_record(int index, void *event, void *stream);
int cni_mirror_event_wait(int index, void *event, void *stream);
int cni_mirror_event_query(int index, void *event);
int cni_mirror_event_sync(int index, void *event);
int cni_mirror_event_elapsed(int index, double *milliseconds, void *from, void *to);

/* ---- calls (mirror_job.c) ---- */
/* One call, copied. */
typedef struct mirror_call {
  mirror_job head;
  cn_call call;
  cn_desc *desc; /* nout results, then nin inputs; data are host pointers */
  bool *there;   /* ... is there such a tensor? */
} mirror_call;

/* NULL with the error set when out of memory. Numbers in host memory are copied by value. */
mirror_call *cni_mirror_call_new(const cn_call *call);
/* Runs it on the calling thread, as often as it is asked to. Results that were not allocated before the call are left
 * in call.out, owned. */
int cni_mirror_call_run(mirror_call *job);
/* A copy of arguments with their lists, in one block of *size bytes; NULL with the error set. */
cn_value *cni_mirror_args(const cn_value *args, int nargs, size_t *size);

/* ---- whole graphs (mirror_graph.c) ---- */
int cni_mirror_graph_compile(int index, void **executable, const cn_whole_graph *graph);
int cni_mirror_graph_launch(int index, void *executable, const cn_graph_launch *run);
void cni_mirror_graph_free(int index, void *executable);
size_t cni_mirror_graph_runs(void); /* for tests: launched so far */

/* ---- recordings (mirror_record.c) ---- */
bool cni_mirror_records(int index);             /* does this thread make one on that device? Then: */
void cni_mirror_keep_call(mirror_job *job);     /* ... a job is kept instead of queued, */
void cni_mirror_keep_block(mirror_job *job);    /* ... memory instead of given back, */
int cni_mirror_cannot_keep(const char *what);   /* ... and the recording fails: an error */
int cni_mirror_record_begin(int index);
int cni_mirror_record_end(int index, void **made);
int cni_mirror_record_run(int index, void *made, const cn_record_run *run);
void cni_mirror_record_free(int index, void *made);
void cni_mirror_record_hold(int index);

#endif
