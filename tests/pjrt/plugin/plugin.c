/* plugin.c: a PJRT plugin for tests: buffers in the host's memory, events, refusals, late errors, and no compiler.
 *
 * It takes any text with a @main, reads the types of its arguments and results, and which arguments are given away.
 * Without a server a run gives each result the bytes of the argument of its number, else zeros; with one
 * (PJRT_TEST_PYTHON and PJRT_TEST_SERVER, see server.py) a run gives what XLA's compiler for CPUs makes of the text.
 * A program for several devices is taken apart as its shardings say: each device has parts of its own.
 * Like real plugins it is strict: structs that are too small, buffers that were given away and sizes that do not fit
 * are errors; options without replicas end the process. PJRT_TEST_DEVICES says how many devices there are (2, at most
 * 8). PJRT_TEST_VERSION, PJRT_TEST_TABLE and PJRT_TEST_CLIENT make it one that cannot be used. */
#define _DEFAULT_SOURCE
#include "plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../src/backends/pjrt/api.h"
#include "read.h"

enum { APART = 300, MEMORY = 1 << 30 }; /* APART: ids that take two bytes */

struct pjrt_error {
  int code;
  char text[4096];
};
struct pjrt_event {
  int code; /* of the error that came late; 0: none */
};
struct pjrt_client {
  int unused;
};
struct pjrt_description {
  int id;
};
struct pjrt_device {
  pjrt_description description;
};
struct pjrt_buffer {
  array_type type;
  int device; /* its id */
  char *data;
  bool deleted;
  int late; /* the program that made it failed */
};
struct pjrt_loaded {
  int refs;
  char *text;
  size_t text_size;
  array_type in[MOST], out[MOST]; /* of the part that a device has */
  int ids[DEVICES], nparts;       /* the devices that it runs on */
  int alias[MOST]; /* of an argument: the result that takes its memory; -1: none */
  size_t nin, nout;
  long number; /* the server's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pjrt_client the_client;
static pjrt_device devices[DEVICES];
static pjrt_device *device_list[DEVICES];
static char failing[32];
static fake_counts counts;

__attribute__((visibility("default"))) void fake_fail(const char *what);
__attribute__((visibility("default"))) void fake_get_counts(fake_counts *out);
__attribute__((visibility("default"))) const pjrt_api *GetPjrtApi(void);

void fake_fail(const char *what) { snprintf(failing, sizeof failing, "%s", what); }
void fake_get_counts(fake_counts *out) { *out = counts; }

static bool fails(const char *what) { return !strcmp(failing, what); }

/* ---- errors and events ---- */

static pjrt_error *error(int code, const char *text)
{
  pjrt_error *e = calloc(1, sizeof *e);
  e->code = code;
  snprintf(e->text, sizeof e->text, "%s", text);
  counts.errors++;
  return e;
}

#define CHECK_SIZE(args)                                                                             \
  do {                                                                                               \
    char message[100];                                                                               \
    if ((args)->size >= sizeof *(args)) break;                                                       \
    snprintf(message, sizeof message, "expected %zu, got %zu", sizeof *(args), (args)->size);        \
    return error(PJRT_INVALID, message);                                                             \
  } while (0)

static void destroy_error(pjrt_error_destroy *args)
{
  counts.errors -= args->error != NULL;
  free(args->error);
}
static void message_of(pjrt_error_message *args)
{
  args->text = args->error->text;
  args->text_size = strlen(args->text);
}
static pjrt_error *code_of(pjrt_error_code *args)
{
  CHECK_SIZE(args);
  args->code = args->error->code;
  return NULL;
}

static pjrt_event *event(int code)
{
  pjrt_event *e = calloc(1, sizeof *e);
  e->code = code;
  counts.events++;
  return e;
}
static pjrt_error *late(int code)
{
  if (!code) return NULL;
  bool memory = code == PJRT_EXHAUSTED;
  return error(code, memory ? "Out of memory while trying to allocate 1.00TiB" : "it failed while it ran");
}
static pjrt_error *destroy_event(pjrt_event_destroy *args)
{
  CHECK_SIZE(args);
  counts.events -= args->event != NULL;
  free(args->event);
  return NULL;
}
static pjrt_error *is_ready(pjrt_event_is_ready *args)
{
  args->ready = true;
  return NULL;
}
static pjrt_error *await(pjrt_event_await *args)
{
  CHECK_SIZE(args);
  return late(args->event->code);
}

/* ---- client and devices ---- */

static pjrt_error *initialize(pjrt_plugin_initialize *args)
{
  CHECK_SIZE(args);
  return NULL;
}
static pjrt_error *create_client(pjrt_client_create *args)
{
  const char *asked = getenv("PJRT_TEST_CLIENT");
  CHECK_SIZE(args);
  for (size_t i = 0; i < args->noptions; i++) {
    const pjrt_named *o = &args->options[i];
    bool known = (!strncmp(o->name, "memory_fraction", o->name_size) && o->type == PJRT_FLOAT) ||
                 (!strncmp(o->name, "preallocate", o->name_size) && o->type == PJRT_BOOL) ||
                 (!strncmp(o->name, "devices", o->name_size) && o->type == PJRT_INT) ||
                 (!strncmp(o->name, "allocator", o->name_size) && o->type == PJRT_STRING);
    if (!known) return error(PJRT_INVALID, "Unexpected option name passed to PJRT_Client_Create");
  }
  if (asked) return error(9, asked);
  args->client = &the_client;
  return NULL;
}
static pjrt_error *destroy_client(pjrt_client_destroy *args)
{
  CHECK_SIZE(args);
  return NULL;
}
static pjrt_error *platform_name(pjrt_client_platform *args)
{
  CHECK_SIZE(args);
  args->text = "fake";
  args->text_size = 4;
  return NULL;
}
static pjrt_error *platform_version(pjrt_client_platform *args)
{
  CHECK_SIZE(args);
  args->text = getenv("PJRT_TEST_PYTHON") ? "by jaxlib" : "1.0";
  args->text_size = strlen(args->text);
  return NULL;
}
static pjrt_error *list_devices(pjrt_client_devices *args)
{
  CHECK_SIZE(args);
  const char *count = getenv("PJRT_TEST_DEVICES");
  args->devices = device_list;
  args->ndevices = count ? (size_t)atoi(count) : 2;
  for (int i = 0; i < DEVICES; i++) {
    devices[i].description.id = i * APART;
    device_list[i] = &devices[i];
  }
  return NULL;
}
static pjrt_error *describe(pjrt_device_description *args)
{
  CHECK_SIZE(args);
  args->description = &args->device->description;
  return NULL;
}
static pjrt_error *id_of(pjrt_description_id *args)
{
  CHECK_SIZE(args);
  args->id = args->description->id;
  return NULL;
}
static pjrt_error *kind_of(pjrt_description_kind *args)
{
  CHECK_SIZE(args);
  args->text = "a device for tests";
  args->text_size = strlen(args->text);
  return NULL;
}
static pjrt_error *memory_of(pjrt_device_memory *args)
{
  CHECK_SIZE(args);
  args->in_use = 1 << 20;
  args->limit = MEMORY;
  args->has_limit = true;
  return NULL;
}

/* ---- buffers ---- */

static pjrt_buffer *new_buffer(const array_type *type, int device)
{
  pjrt_buffer *b = calloc(1, sizeof *b);
  b->device = device;
  b->type = *type;
  b->data = calloc(1, type->bytes + 1);
  counts.buffers++;
  if (counts.buffers > counts.most_buffers) counts.most_buffers = counts.buffers;
  return b;
}
static pjrt_error *upload(pjrt_client_upload *args)
{
  CHECK_SIZE(args);
  array_type type = {.type = args->type, .ndims = (int)args->ndims};
  if (args->ndims > DIMS || !type_bytes(args->type) || !args->device) return error(PJRT_INVALID, "no such array");
  memcpy(type.dims, args->dims, args->ndims * sizeof *args->dims);
  count_bytes(&type);
  if (fails("upload")) return error(PJRT_EXHAUSTED, "Out of memory while trying to allocate 1.00TiB");
  args->buffer = new_buffer(&type, args->device->description.id);
  args->done = event(fails("upload-late") ? PJRT_INTERNAL : 0);
  memcpy(args->buffer->data, args->data, type.bytes);
  counts.uploads++;
  return NULL;
}
static pjrt_error *destroy_buffer(pjrt_buffer_destroy *args)
{
  CHECK_SIZE(args);
  free(args->buffer->data);
  free(args->buffer);
  counts.buffers--;
  return NULL;
}
static pjrt_error *download(pjrt_buffer_download *args)
{
  CHECK_SIZE(args);
  if (args->buffer->deleted) return error(PJRT_INVALID, "the buffer was deleted or donated");
  if (args->to_size < args->buffer->type.bytes) return error(PJRT_INVALID, "the host buffer is too small");
  if (fails("download")) return error(PJRT_INTERNAL, "no transfer");
  args->done = event(fails("download-late") ? PJRT_INTERNAL : args->buffer->late);
  memcpy(args->to, args->buffer->data, args->buffer->type.bytes);
  counts.downloads++;
  return NULL;
}
static pjrt_error *ready_event(pjrt_buffer_ready *args)
{
  CHECK_SIZE(args);
  args->event = event(args->buffer->late);
  return NULL;
}

static bool read_text(pjrt_loaded *p)
{
  const char *main = strstr(p->text, "@main("), *arrow = main ? strstr(main, "->") : NULL;
  const char *body = main ? strstr(main, "{\n") : NULL;
  if (!main || !body) return false;
  if (!arrow || arrow > body) arrow = body;
  return read_types(p->in, &p->nin, p->alias, p->text, main, arrow) &&
         read_types(p->out, &p->nout, NULL, p->text, arrow, body);
}

/* ---- the server ---- */

static int server = -1;

static bool send_all(const void *bytes, size_t n)
{
  for (const char *at = bytes; n;) {
    ssize_t sent = send(server, at, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    n -= (size_t)sent;
  }
  return true;
}
static bool receive_all(void *bytes, size_t n)
{
  for (char *at = bytes; n;) {
    ssize_t got = recv(server, at, n, 0);
    if (got <= 0) return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}
static bool send_number(int64_t n) { return send_all(&n, sizeof n); }
static int64_t receive_number(void)
{
  int64_t n = -1;
  return receive_all(&n, sizeof n) ? n : -1;
}

static bool has_server(void)
{
  const char *python = getenv("PJRT_TEST_PYTHON"), *script = getenv("PJRT_TEST_SERVER");
  int ends[2];
  if (server >= 0 || !python || !script) return server >= 0;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return false;
  if (!fork()) {
    char number[16];
    close(ends[0]);
    snprintf(number, sizeof number, "%d", ends[1]);
    unsetenv("LD_PRELOAD");
    execlp(python, python, script, number, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  server = ends[0];
  return true;
}

/* What the server says it is, after a request: 0, or an error with its text. */
static pjrt_error *answer(void)
{
  char text[3000];
  int64_t n = receive_number();
  if (n == 0) return NULL;
  if (n < 0 || (size_t)n >= sizeof text || !receive_all(text, (size_t)n))
    return error(PJRT_INTERNAL, "the server is gone");
  text[n] = 0;
  return error(2, text);
}

static pjrt_error *compile_there(pjrt_loaded *p)
{
  bool sent = send_number('C') && send_number((int64_t)p->text_size) && send_all(p->text, p->text_size) &&
              send_number(p->nparts);
  for (int k = 0; k < p->nparts && sent; k++) sent = send_number(p->ids[k] / APART);
  if (!sent) return error(PJRT_INTERNAL, "the server is gone");
  pjrt_error *failed = answer();
  if (!failed) p->number = (long)receive_number();
  return failed;
}

/* Arguments and results of each device, one device after the other. */
static pjrt_error *run_there(const pjrt_loaded *p, pjrt_buffer *const *const *in, pjrt_buffer **const *out)
{
  bool sent = send_number('X') && send_number(p->number) && send_number((int64_t)p->nin);
  for (size_t i = 0; i < p->nin && sent; i++) {
    const array_type *t = &p->in[i];
    sent = send_number(t->type) && send_number(t->ndims) && send_all(t->dims, (size_t)t->ndims * sizeof *t->dims);
    for (int k = 0; k < p->nparts && sent; k++)
      sent = send_number((int64_t)t->bytes) && send_all(in[k][i]->data, t->bytes);
  }
  if (!sent) return error(PJRT_INTERNAL, "the server is gone");
  pjrt_error *failed = answer();
  for (size_t i = 0; i < p->nout * (size_t)p->nparts && !failed; i++) {
    pjrt_buffer *b = out[i % (size_t)p->nparts][i / (size_t)p->nparts];
    if (receive_number() != (int64_t)b->type.bytes || !receive_all(b->data, b->type.bytes))
      failed = error(PJRT_INTERNAL, "a result has another size than its text says");
  }
  return failed;
}

/* ---- programs ---- */

static void release_program(pjrt_loaded *p)
{
  if (--p->refs) return;
  counts.executables--;
  free(p->text);
  free(p);
}

static pjrt_error *make_program(pjrt_loaded **made, const char *text, size_t n, const int *ids, int nparts)
{
  pjrt_loaded *p = calloc(1, sizeof *p);
  p->refs = 1;
  p->nparts = nparts;
  memcpy(p->ids, ids, sizeof p->ids);
  p->text = calloc(1, n + 1);
  p->text_size = n;
  memcpy(p->text, text, n);
  counts.executables++;
  pjrt_error *failed = read_text(p) ? NULL : error(2, "-:1:1: error: there is no @main whose types are known");
  if (!failed && has_server()) failed = compile_there(p);
  if (failed) release_program(p);
  else *made = p;
  return failed;
}

/* PJRT_TEST_DUMP: a folder for texts, numbered. */
static void dump(const pjrt_program *program)
{
  static int number;
  char path[1200];
  const char *folder = getenv("PJRT_TEST_DUMP");
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%04d.mlir", folder, number++);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(program->code, 1, program->code_size, f);
  if (f) fclose(f);
}

static pjrt_error *compile(pjrt_client_compile *args)
{
  CHECK_SIZE(args);
  build_options o = read_options(args->options, args->options_size);
  for (size_t k = 0; k < o.assigned; k++)
    if (o.ids[k] % APART || o.ids[k] / APART >= DEVICES) return error(PJRT_INVALID, "Device id is out of range");
  counts.elsewhere += o.ids[0] != 0;
  counts.several += o.partitions > 1;
  if (strncmp(args->program->format, "mlir", args->program->format_size)) return error(PJRT_INVALID, "unknown format");
  if (fails("compile")) return error(2, "-:2:7: error: custom op 'stablehlo.frobnicate' is unknown");
  dump(args->program);
  const char *mesh = strstr(args->program->code, "sdy.mesh");
  if ((mesh && mesh < args->program->code + args->program->code_size) != (o.shardy != 0))
    return error(PJRT_INVALID, "the text and the options name two partitioners");
  pjrt_error *failed = make_program(&args->loaded, args->program->code, args->program->code_size, o.ids,
                                    (int)o.partitions);
  counts.compiled += !failed;
  return failed;
}

static pjrt_error *destroy_loaded(pjrt_loaded_destroy *args)
{
  CHECK_SIZE(args);
  release_program(args->loaded);
  return NULL;
}
static pjrt_error *get_executable(pjrt_loaded_executable *args)
{
  CHECK_SIZE(args);
  args->loaded->refs++;
  args->executable = (pjrt_executable *)(void *)args->loaded;
  return NULL;
}
static pjrt_error *destroy_executable(pjrt_executable_destroy *args)
{
  CHECK_SIZE(args);
  release_program((pjrt_loaded *)(void *)args->executable);
  return NULL;
}
static pjrt_error *count_outputs(pjrt_executable_outputs *args)
{
  CHECK_SIZE(args);
  args->count = ((pjrt_loaded *)(void *)args->executable)->nout;
  return NULL;
}

static void nothing(void *owner) { (void)owner; }

/* What is stored: a word and the devices, then the text. */
typedef struct stored {
  char magic[8];
  int ids[DEVICES], nparts;
} stored;
static const char magic[8] = "FAKEPJR2";

static pjrt_error *serialize(pjrt_executable_serialize *args)
{
  CHECK_SIZE(args);
  static char *kept;
  const pjrt_loaded *p = (const pjrt_loaded *)(const void *)args->executable;
  stored head = {.nparts = p->nparts};
  memcpy(head.magic, magic, sizeof magic);
  memcpy(head.ids, p->ids, sizeof p->ids);
  kept = realloc(kept, sizeof head + p->text_size);
  memcpy(kept, &head, sizeof head);
  memcpy(kept + sizeof head, p->text, p->text_size);
  args->bytes = kept;
  args->bytes_size = sizeof head + p->text_size;
  args->release = nothing;
  return NULL;
}
static pjrt_error *load(pjrt_load *args)
{
  CHECK_SIZE(args);
  stored head;
  if (fails("load") || args->bytes_size < sizeof head || memcmp(args->bytes, magic, sizeof magic))
    return error(PJRT_INVALID, "damaged");
  memcpy(&head, args->bytes, sizeof head);
  pjrt_error *failed = make_program(&args->loaded, args->bytes + sizeof head, args->bytes_size - sizeof head, head.ids,
                                    head.nparts);
  counts.loaded += !failed;
  return failed;
}

static bool is_kept(const pjrt_execute_options *o, size_t i)
{
  for (size_t k = 0; k < o->nkept; k++)
    if (o->kept[k] == (int64_t)i) return true;
  return false;
}

/* Sizes alone are checked, as real plugins do; but this one looks at types and dims, too, to catch who relies on that.
 */
static pjrt_error *check_arguments(const pjrt_loaded *p, const pjrt_loaded_execute *args, int part)
{
  char text[200];
  pjrt_buffer *const *in = args->arguments[part];
  if (args->narguments != p->nin) return error(PJRT_INVALID, "another number of arguments than the program expects");
  for (size_t i = 0; i < p->nin; i++) {
    const pjrt_buffer *b = in[i];
    if (b->deleted) return error(PJRT_INVALID, "Donation requested for invalid buffer");
    bool same = b->type.type == p->in[i].type && b->type.ndims == p->in[i].ndims && b->device == p->ids[part] &&
                !memcmp(b->type.dims, p->in[i].dims, (size_t)b->type.ndims * sizeof *b->type.dims);
    snprintf(text, sizeof text, "argument %zu has another type or device than the program expects", i);
    if (!same) return error(PJRT_INVALID, text);
    for (size_t k = 0; k < i; k++)
      if (in[k] == b && ((p->alias[i] >= 0 && !is_kept(args->options, i)) ||
                         (p->alias[k] >= 0 && !is_kept(args->options, k))))
        return error(PJRT_INVALID, "the same buffer twice, and donated");
  }
  return NULL;
}

static void make_results(const pjrt_loaded *p, pjrt_buffer **out, pjrt_buffer *const *in, int part, int code)
{
  for (size_t i = 0; i < p->nout; i++) {
    out[i] = new_buffer(&p->out[i], p->ids[part]);
    out[i]->late = code;
    if (i < p->nin && in[i]->type.bytes == out[i]->type.bytes) memcpy(out[i]->data, in[i]->data, out[i]->type.bytes);
  }
}

/* Arguments that are given away: the result has their memory from now on. */
static void give_away(const pjrt_loaded *p, const pjrt_loaded_execute *args, int part)
{
  for (size_t i = 0; i < p->nin; i++) {
    pjrt_buffer *in = args->arguments[part][i];
    bool given = p->alias[i] >= 0 && !is_kept(args->options, i);
    counts.given += given;
    counts.kept += p->alias[i] >= 0 && !given;
    if (!given) continue;
    pjrt_buffer *out = args->results[part][p->alias[i]];
    char *data = in->data;
    memcpy(data, out->data, out->type.bytes);
    in->data = out->data;
    out->data = data;
    in->deleted = true;
  }
}

static pjrt_error *execute(pjrt_loaded_execute *args)
{
  CHECK_SIZE(args);
  const pjrt_loaded *p = args->loaded;
  int code = fails("execute-late") ? PJRT_INTERNAL : fails("memory") ? PJRT_EXHAUSTED : 0;
  pjrt_error *failed = NULL;
  if (args->ndevices != (size_t)p->nparts) return error(PJRT_INVALID, "another number of devices than partitions");
  for (int k = 0; k < p->nparts && !failed; k++) failed = check_arguments(p, args, k);
  if (!failed && fails("execute")) failed = error(PJRT_INTERNAL, "no execution");
  if (failed) return failed;
  for (int k = 0; k < p->nparts; k++) make_results(p, args->results[k], args->arguments[k], k, code);
  for (size_t i = 0; i < p->nin; i++) code = code ? code : args->arguments[0][i]->late;
  if (!code && has_server()) failed = run_there(p, args->arguments, args->results);
  for (size_t i = 0; i < p->nout * (size_t)p->nparts && failed; i++) {
    size_t part = i % (size_t)p->nparts;
    pjrt_buffer_destroy end = {.size = sizeof end, .buffer = args->results[part][i / (size_t)p->nparts]};
    destroy_buffer(&end);
  }
  if (failed) return failed;
  for (int k = 0; k < p->nparts; k++) {
    give_away(p, args, k);
    if (args->done) args->done[k] = event(code);
  }
  counts.executed++;
  return NULL;
}

/* ---- the table ---- */

/* One call at a time, since counts are shared. */
#define GUARDED(name, function, type)     \
  static pjrt_error *name(type *args)     \
  {                                       \
    pthread_mutex_lock(&lock);            \
    pjrt_error *failed = function(args);  \
    pthread_mutex_unlock(&lock);          \
    return failed;                        \
  }
GUARDED(guarded_execute, execute, pjrt_loaded_execute)
GUARDED(guarded_compile, compile, pjrt_client_compile)
GUARDED(guarded_upload, upload, pjrt_client_upload)
GUARDED(guarded_download, download, pjrt_buffer_download)
GUARDED(guarded_destroy_buffer, destroy_buffer, pjrt_buffer_destroy)
GUARDED(guarded_await, await, pjrt_event_await)
GUARDED(guarded_destroy_event, destroy_event, pjrt_event_destroy)
GUARDED(guarded_load, load, pjrt_load)

const pjrt_api *GetPjrtApi(void)
{
  static pjrt_api api = {
      .size = sizeof api, .version = {.size = sizeof api.version, .minor = 90},
      .error_destroy = destroy_error, .error_message = message_of, .error_code = code_of,
      .plugin_initialize = initialize, .event_destroy = guarded_destroy_event, .event_is_ready = is_ready,
      .event_await = guarded_await, .client_create = create_client, .client_destroy = destroy_client,
      .client_platform_name = platform_name, .client_platform_version = platform_version,
      .client_devices = list_devices, .client_compile = guarded_compile, .client_upload = guarded_upload,
      .description_id = id_of, .description_kind = kind_of, .device_description = describe, .device_memory = memory_of,
      .executable_destroy = destroy_executable, .executable_outputs = count_outputs, .executable_serialize = serialize,
      .loaded_destroy = destroy_loaded, .loaded_executable = get_executable, .loaded_execute = guarded_execute,
      .load = guarded_load, .buffer_destroy = guarded_destroy_buffer, .buffer_download = guarded_download,
      .buffer_ready = ready_event,
  };
  const char *version = getenv("PJRT_TEST_VERSION"), *table = getenv("PJRT_TEST_TABLE");
  if (version) api.version.minor = atoi(version);
  if (table && !strcmp(table, "short")) api.size = offsetof(pjrt_api, loaded_execute);
  if (table && !strcmp(table, "holes")) api.client_compile = NULL;
  return &api;
}
