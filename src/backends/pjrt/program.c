/* program.c: compiled programs: made by the plugin's compiler, or read from disk, kept, and run.
 *
 * Place in the flow: pending.c and whole.c bring texts; results become values. Invariants: a program is compiled for
 * one replica and one partition (plugins abort without), or as many partitions as a mesh has devices; what it is given
 * has been checked to have the types that its text says, since plugins look at sizes alone; a failure that comes late
 * is told by whoever waits. */
#include "program.h"

#include <cairn/ext/hash.h>
#include <stdio.h>
#include <string.h>

#define host cni_pjrt_host

struct pjrt_code {
  int refs;
  pjrt_loaded *loaded;
  size_t nresults;
};

/* ---- bytes ---- */

int cni_pjrt_room(void **array, size_t *cap, size_t need, size_t element)
{
  if (need <= *cap) return CN_OK;
  size_t more = *cap + *cap / 2 + 16;
  if (more < need) more = need;
  void *moved = host->memory(more * element);
  if (!moved) return CN_ERR_MEMORY;
  if (*cap) memcpy(moved, *array, *cap * element);
  if (*array) host->free_memory(*array, *cap * element);
  *array = moved;
  *cap = more;
  return CN_OK;
}

void cni_pjrt_put(pjrt_text *t, const void *bytes, size_t n)
{
  t->failed = t->failed || cni_pjrt_room((void **)&t->s, &t->cap, t->n + n, 1);
  if (t->failed || !n) return;
  memcpy(t->s + t->n, bytes, n);
  t->n += n;
}

void cni_pjrt_text_free(pjrt_text *t)
{
  if (t->s) host->free_memory(t->s, t->cap);
}

/* ---- finding programs again ---- */

typedef struct entry {
  struct entry *next;
  uint64_t hash;
  size_t size;
  pjrt_code *code;
  bool owns; /* others are known under this code, too */
  char key[];
} entry;

enum { SLOTS = 1024, MOST_PROGRAMS = 1000 };
static entry *table[SLOTS];
static int nprograms;

static entry *find(const void *key, size_t size, uint64_t hash)
{
  entry *e = table[hash % SLOTS];
  while (e && (e->hash != hash || e->size != size || memcmp(e->key, key, size) != 0)) e = e->next;
  return e;
}

pjrt_code *cni_pjrt_known(const void *key, size_t size)
{
  entry *e = find(key, size, cn_hash(key, size));
  return e ? e->code : NULL;
}

static int note(const void *key, size_t size, pjrt_code *code, bool owns)
{
  uint64_t hash = cn_hash(key, size);
  entry *e = host->memory(sizeof *e + size);
  if (!e) return CN_ERR_MEMORY;
  *e = (entry){.next = table[hash % SLOTS], .hash = hash, .size = size, .code = code, .owns = owns};
  memcpy(e->key, key, size);
  table[hash % SLOTS] = e;
  return CN_OK;
}

int cni_pjrt_note(const void *key, size_t size, pjrt_code *code) { return note(key, size, code, false); }

void cni_pjrt_code_keep(pjrt_code *code) { code->refs++; }

void cni_pjrt_code_release(pjrt_code *code)
{
  if (!code || --code->refs) return;
  pjrt_loaded_destroy args = {.size = sizeof args, .loaded = code->loaded};
  if (code->loaded) cni_pjrt_check(cni_pjrt->loaded_destroy(&args), "giving a program back");
  host->free_memory(code, sizeof *code);
}

/* Also where there are too many: a loop with another number in each step makes one program a step. */
void cni_pjrt_code_exit(void)
{
  nprograms = 0;
  for (int i = 0; i < SLOTS; i++)
    while (table[i]) {
      entry *e = table[i];
      table[i] = e->next;
      if (e->owns) cni_pjrt_code_release(e->code);
      host->free_memory(e, sizeof *e + e->size);
    }
}

/* ---- compiling ---- */

/* ---- options of the compiler: a message of protocol buffers ---- */

static void put_byte(pjrt_text *t, int byte)
{
  const char c = (char)byte;
  cni_pjrt_put(t, &c, 1);
}

static void put_varint(pjrt_text *t, size_t n)
{
  for (; n >= 0x80; n >>= 7) put_byte(t, (int)(0x80 | (n & 0x7f)));
  put_byte(t, (int)n);
}

static void put_field(pjrt_text *t, int field, size_t n)
{
  put_varint(t, (size_t)field << 3);
  put_varint(t, n);
}

/* A message in a message; ends `part`. */
static void put_message(pjrt_text *t, int field, pjrt_text *part)
{
  put_byte(t, field << 3 | 2);
  put_varint(t, part->n);
  cni_pjrt_put(t, part->s, part->n);
  t->failed = t->failed || part->failed;
  cni_pjrt_text_free(part);
}

/* DeviceAssignmentProto { replica_count: 1 computation_count: n computation_devices { replica_device_ids: id } ... } */
static void put_assignment(pjrt_text *t, int index)
{
  int n = cni_pjrt_parts(index);
  put_field(t, 1, 1);
  put_field(t, 2, (size_t)n);
  for (int k = 0; k < n; k++) {
    pjrt_text ids = {0}, devices = {0};
    put_varint(&ids, (size_t)cni_pjrt_device_id(cni_pjrt_part(index, k)));
    put_message(&devices, 1, &ids);
    put_message(t, 3, &devices);
  }
}

/* CompileOptionsProto { executable_build_options { num_replicas: 1 num_partitions: n use_spmd_partitioning: true
 * device_assignment { ... } use_shardy_partitioner: true } }: the last three for a mesh, the last one where Shardy is
 * asked for, the one before also for another device than the first. */
static void compile_options(pjrt_text *out, int index)
{
  pjrt_text build = {0}, assignment = {0};
  int n = cni_pjrt_parts(index);
  put_field(&build, 4, 1);
  put_field(&build, 5, (size_t)n);
  if (cni_pjrt_mesh(index)) put_field(&build, 6, 1);
  if (index) put_assignment(&assignment, index);
  if (index) put_message(&build, 9, &assignment);
  if (cni_pjrt_mesh(index) && cni_pjrt_shardy()) put_field(&build, 19, 1);
  put_message(out, 3, &build);
}

/* The name of a program's file: whatever it depends on. */
static void file_name(char *name, size_t room, const char *text, size_t size, const char *options, size_t noptions)
{
  const char *platform = cni_pjrt_platform();
  uint64_t a = cn_hash(text, size), b = cn_hash_more(~CN_HASH_BEGIN, platform, strlen(platform));
  b = cn_hash_more(cn_hash_more(b, options, noptions), text, size);
  snprintf(name, room, "pjrt-%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

/* What is damaged or of another version is compiled anew: no error. */
static bool load(pjrt_code *code, const char *name)
{
  size_t size;
  char *bytes = cni_pjrt->load ? host->cache_load(name, &size) : NULL;
  if (!bytes) return false;
  pjrt_load args = {.size = sizeof args, .client = cni_pjrt_client, .bytes = bytes, .bytes_size = size};
  pjrt_error *error = cni_pjrt->load(&args);
  host->free_memory(bytes, size);
  pjrt_error_destroy end = {.size = sizeof end, .error = error};
  if (error) cni_pjrt->error_destroy(&end);
  else code->loaded = args.loaded;
  return !error;
}

static pjrt_executable *executable_of(const pjrt_code *code)
{
  pjrt_loaded_executable args = {.size = sizeof args, .loaded = code->loaded};
  return cni_pjrt_check(cni_pjrt->loaded_executable(&args), "looking at a program") ? NULL : args.executable;
}

static void store(pjrt_executable *executable, const char *name)
{
  pjrt_executable_serialize args = {.size = sizeof args, .executable = executable};
  pjrt_error *error = cni_pjrt->executable_serialize ? cni_pjrt->executable_serialize(&args) : NULL;
  pjrt_error_destroy end = {.size = sizeof end, .error = error};
  if (error) cni_pjrt->error_destroy(&end); /* not every platform can */
  else if (args.bytes) host->cache_store(name, args.bytes, args.bytes_size);
  if (!error && args.release) args.release(args.owner);
}

static int compile(pjrt_code *code, const char *text, size_t size, const char *options, size_t noptions)
{
  static const char format[] = "mlir";
  pjrt_program program = {.size = sizeof program, .code = (char *)(uintptr_t)text, .code_size = size, .format = format,
                          .format_size = sizeof format - 1};
  pjrt_client_compile args = {.size = sizeof args, .client = cni_pjrt_client, .program = &program, .options = options,
                              .options_size = noptions};
  int status = cni_pjrt_check(cni_pjrt->client_compile(&args), "compiling a program");
  code->loaded = status ? NULL : args.loaded;
  return status;
}

static int check_results(pjrt_code *code, const char *name, bool fresh)
{
  pjrt_executable *executable = executable_of(code);
  if (!executable) return CN_ERR_DEVICE;
  pjrt_executable_outputs count = {.size = sizeof count, .executable = executable};
  int status = cni_pjrt_check(cni_pjrt->executable_outputs(&count), "looking at a program");
  if (!status && count.count != code->nresults)
    status = host->fail(CN_ERR_INTERNAL, "pjrt: a program has %zu results instead of %zu", count.count, code->nresults);
  if (!status && fresh) store(executable, name);
  pjrt_executable_destroy end = {.size = sizeof end, .executable = executable};
  int ended = cni_pjrt_check(cni_pjrt->executable_destroy(&end), "looking at a program");
  return status ? status : ended;
}

static int obtain(pjrt_code *code, const char *text, size_t size, const pjrt_text *options)
{
  char name[64];
  file_name(name, sizeof name, text, size, options->s, options->n);
  double begin = host->now();
  bool loaded = load(code, name);
  int status = loaded ? CN_OK : compile(code, text, size, options->s, options->n);
  if (!status) status = check_results(code, name, !loaded);
  host->log(CN_LOG_DEBUG, "pjrt: a program of %zu bytes and %zu results was %s in %.0f ms", size, code->nresults,
            loaded ? "loaded" : "compiled", (host->now() - begin) * 1e3);
  return status;
}

static int make_code(pjrt_code **made, int index, const char *text, size_t size, size_t nresults)
{
  pjrt_text options = {0};
  pjrt_code *code = host->memory(sizeof *code);
  if (!code) return CN_ERR_MEMORY;
  *code = (pjrt_code){.refs = 1, .nresults = nresults};
  compile_options(&options, index);
  int status = options.failed ? CN_ERR_MEMORY : obtain(code, text, size, &options);
  cni_pjrt_text_free(&options);
  if (status) cni_pjrt_code_release(code);
  else *made = code;
  return status;
}

int cni_pjrt_code_find(pjrt_code **code, int index, const char *text, size_t size, size_t nresults)
{
  const int64_t head[2] = {'T', index};
  pjrt_text key = {0};
  cni_pjrt_put(&key, head, sizeof head);
  cni_pjrt_put(&key, text, size);
  int status = key.failed ? CN_ERR_MEMORY : CN_OK;
  *code = status ? NULL : cni_pjrt_known(key.s, key.n);
  if (!status && !*code) {
    if (nprograms >= MOST_PROGRAMS) cni_pjrt_code_exit();
    status = make_code(code, index, text, size, nresults);
    if (!status && (status = note(key.s, key.n, *code, true))) cni_pjrt_code_release(*code);
    nprograms += !status;
  }
  cni_pjrt_text_free(&key);
  return status;
}

/* ---- running ---- */

enum { FLYING = 32 }; /* runs that are queued before the oldest is waited for */
static struct {
  pjrt_event *v[FLYING];
  unsigned begin, n;
} flying[PJRT_DEVICES];

static int wait_oldest(int index)
{
  pjrt_event *event = flying[index].v[flying[index].begin];
  flying[index].begin = (flying[index].begin + 1) % FLYING;
  flying[index].n--;
  return cni_pjrt_await(event, "running a program");
}

int cni_pjrt_code_wait(int index)
{
  int status = CN_OK;
  while (flying[index].n) {
    int ended = wait_oldest(index);
    if (!status) status = ended;
  }
  return status;
}

static void fly(int index, pjrt_event *event)
{
  unsigned at = (flying[index].begin + flying[index].n++) % FLYING;
  flying[index].v[at] = event;
}

/* One run on all devices of an index: a list of arguments and one of results for each. */
typedef struct run {
  pjrt_buffer **in, **out; /* nin, nout for each device */
  pjrt_buffer *const **ins;
  pjrt_buffer ***outs;
  pjrt_event **done;
  int64_t *kept;
  size_t nin, nout, nkept, ndevices, bytes;
} run;

static int run_begin(run *r, int index, size_t nin, size_t nout)
{
  size_t n = (size_t)cni_pjrt_parts(index);
  *r = (run){.nin = nin, .nout = nout, .ndevices = n};
  r->bytes = (n * (nin + nout + 3) + 1) * sizeof(void *) + (nin + 1) * sizeof(int64_t);
  if (!(r->kept = host->memory(r->bytes))) return CN_ERR_MEMORY;
  memset(r->kept, 0, r->bytes);
  r->in = (pjrt_buffer **)(void *)(r->kept + nin + 1);
  r->out = r->in + n * nin;
  r->ins = (pjrt_buffer *const **)(r->out + n * nout);
  r->outs = (pjrt_buffer ***)(void *)(r->ins + n);
  r->done = (pjrt_event **)(r->outs + n);
  for (size_t k = 0; k < n; k++) {
    r->ins[k] = r->in + k * nin;
    r->outs[k] = r->out + k * nout;
  }
  return CN_OK;
}

static int execute(pjrt_code *code, int index, run *r)
{
  pjrt_execute_options options = {.size = sizeof options, .kept = r->kept, .nkept = r->nkept};
  pjrt_loaded_execute args = {.size = sizeof args, .loaded = code->loaded, .options = &options, .arguments = r->ins,
                              .ndevices = r->ndevices, .narguments = r->nin, .results = r->outs, .done = r->done};
  int status = cni_pjrt_check(cni_pjrt->loaded_execute(&args), "running a program");
  for (size_t k = 0; k < r->ndevices && !status; k++) {
    if (!r->done[k]) continue;
    if (flying[index].n < FLYING) fly(index, r->done[k]);
    else status = cni_pjrt_await(r->done[k], "running a program"); /* of more devices than are remembered */
  }
  return status;
}

/* Room for the events of a run: what failed earlier is told, but this one runs. */
static int make_room(int index, size_t n)
{
  int earlier = CN_OK;
  while (flying[index].n && flying[index].n + n > FLYING) {
    int ended = wait_oldest(index);
    if (!earlier) earlier = ended;
  }
  return earlier;
}

int cni_pjrt_code_run(pjrt_code *code, int index, pjrt_value *const *args, size_t nargs, const bool *keep,
                      pjrt_value *const *out, size_t nout)
{
  run r;
  if (run_begin(&r, index, nargs, nout)) return CN_ERR_MEMORY;
  int status = CN_OK, earlier = make_room(index, r.ndevices);
  for (size_t i = 0; i < nargs && !status; i++) {
    status = cni_pjrt_value_upload(args[i]);
    if (keep && keep[i]) r.kept[r.nkept++] = (int64_t)i;
    for (size_t k = 0; k < r.ndevices; k++) r.in[k * nargs + i] = args[i]->buffers[k];
  }
  if (!status) status = execute(code, index, &r);
  for (size_t i = 0; i < nout && !status; i++) {
    for (size_t k = 0; k < r.ndevices; k++) out[i]->buffers[k] = r.out[k * nout + i];
    out[i]->pending = false;
  }
  host->free_memory(r.kept, r.bytes);
  if (!status && cni_pjrt_waits) status = cni_pjrt_code_wait(index);
  return status ? status : earlier;
}
