/* program.c: compiled programs: made by the plugin's compiler, or read from disk, kept, and run.
 *
 * Place in the flow: pending.c and whole.c bring texts; results become values. Invariants: a program is compiled for
 * one replica and one partition (plugins abort without); what it is given has been checked to have the types that its
 * text says, since plugins look at sizes alone; a failure that comes late is told by whoever waits. */
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

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }, and for another device than the
 * first one the assignment { replica_count: 1 computation_count: 1 computation_devices { replica_device_ids: id } }. */
static size_t compile_options(char out[32], int index)
{
  static const char plain[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};
  unsigned id = index ? (unsigned)cni_pjrt_device_id(index) : 0;
  char ids[8];
  size_t n = 0;
  memcpy(out, plain, sizeof plain);
  if (!index) return sizeof plain;
  for (; id >= 0x80; id >>= 7) ids[n++] = (char)(0x80 | (id & 0x7f)); /* a varint */
  ids[n++] = (char)id;
  const char head[] = {0x4a, (char)(8 + n), 0x08, 0x01, 0x10, 0x01, 0x1a, (char)(2 + n), 0x0a, (char)n};
  memcpy(out + sizeof plain, head, sizeof head);
  memcpy(out + sizeof plain + sizeof head, ids, n);
  out[1] = (char)(4 + sizeof head + n);
  return sizeof plain + sizeof head + n;
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

static int make_code(pjrt_code **made, int index, const char *text, size_t size, size_t nresults)
{
  char options[32], name[64];
  size_t noptions = compile_options(options, index);
  pjrt_code *code = host->memory(sizeof *code);
  if (!code) return CN_ERR_MEMORY;
  *code = (pjrt_code){.refs = 1, .nresults = nresults};
  file_name(name, sizeof name, text, size, options, noptions);
  double begin = host->now();
  bool loaded = load(code, name);
  int status = loaded ? CN_OK : compile(code, text, size, options, noptions);
  if (!status) status = check_results(code, name, !loaded);
  host->log(CN_LOG_DEBUG, "pjrt: a program of %zu bytes and %zu results was %s in %.0f ms", size, nresults,
            loaded ? "loaded" : "compiled", (host->now() - begin) * 1e3);
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

static int execute(pjrt_code *code, int index, pjrt_buffer **in, size_t nin, const int64_t *kept, size_t nkept,
                   pjrt_buffer **out)
{
  pjrt_event *done = NULL;
  pjrt_buffer *const *ins[1] = {in};
  pjrt_buffer **outs[1] = {out};
  pjrt_execute_options options = {.size = sizeof options, .kept = kept, .nkept = nkept};
  pjrt_loaded_execute args = {.size = sizeof args, .loaded = code->loaded, .options = &options, .arguments = ins,
                              .ndevices = 1, .narguments = nin, .results = outs, .done = &done};
  int status = cni_pjrt_check(cni_pjrt->loaded_execute(&args), "running a program");
  if (!status && done) fly(index, done);
  return status;
}

static size_t list_kept(int64_t *kept, const bool *keep, size_t n)
{
  size_t nkept = 0;
  for (size_t i = 0; keep && i < n; i++)
    if (keep[i]) kept[nkept++] = (int64_t)i;
  return nkept;
}

int cni_pjrt_code_run(pjrt_code *code, int index, pjrt_value *const *args, size_t nargs, const bool *keep,
                      pjrt_value *const *out, size_t nout)
{
  size_t bytes = (nargs + nout + 1) * sizeof(pjrt_buffer *) + (nargs + 1) * sizeof(int64_t);
  int64_t *kept = host->memory(bytes);
  if (!kept) return CN_ERR_MEMORY;
  pjrt_buffer **in = (pjrt_buffer **)(void *)(kept + nargs + 1), **results = in + nargs;
  memset(kept, 0, bytes);
  int status = CN_OK, earlier = flying[index].n == FLYING ? wait_oldest(index) : CN_OK; /* told, but this one runs */
  for (size_t i = 0; i < nargs && !status; i++) {
    status = cni_pjrt_value_upload(args[i]);
    in[i] = args[i]->buffer;
  }
  if (!status) status = execute(code, index, in, nargs, kept, list_kept(kept, keep, nargs), results);
  for (size_t i = 0; i < nout && !status; i++) {
    out[i]->buffer = results[i];
    out[i]->pending = false;
  }
  host->free_memory(kept, bytes);
  if (!status && cni_pjrt_waits) status = cni_pjrt_code_wait(index);
  return status ? status : earlier;
}
