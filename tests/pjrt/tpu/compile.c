/* compile.c: compiles texts by libtpu for a TPU that need not be there: compile LIBRARY TOPOLOGY, with lines
 * "PARTITIONS PATH" on its input. For each it prints a line of words with tabs between them: "ok", the path, seconds,
 * and what the compiler says that the program takes: bytes of code, arguments, results, results that lie in arguments,
 * other memory; operations and bytes moved. Or "bad", the path and why.
 *
 * Place in the flow: built and started by tests/pjrt/tpu_compile.py. TPU_SKIP_MDS_QUERY=1 has to be set, or libtpu
 * asks the network what kind of machine this is. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../src/backends/pjrt/api.h"

static const pjrt_api *api;

/* Prints an error in one line; was there one? */
static int failed(const char *what, pjrt_error *error)
{
  if (!error) return 0;
  pjrt_error_message text = {.size = sizeof text, .error = error};
  api->error_message(&text);
  printf("bad\t%s\t", what);
  for (size_t i = 0; i < text.text_size && i < 600; i++)
    putchar(text.text[i] == '\n' || text.text[i] == '\t' ? ' ' : text.text[i]);
  putchar('\n');
  pjrt_error_destroy end = {.size = sizeof end, .error = error};
  api->error_destroy(&end);
  return 1;
}

static char *read_file(size_t *size, const char *path)
{
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  if (!f || fseek(f, 0, SEEK_END)) return NULL;
  *size = (size_t)ftell(f);
  rewind(f);
  text = malloc(*size + 1);
  if (fread(text, 1, *size, f) != *size) *size = 0;
  fclose(f);
  return text;
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double property(const pjrt_executable_costs *costs, const char *name)
{
  for (size_t i = 0; i < costs->nproperties; i++) {
    const pjrt_named *p = &costs->properties[i];
    if (p->name_size == strlen(name) && !memcmp(p->name, name, p->name_size)) return (double)p->u.f;
  }
  return 0;
}

static int tell(const char *path, double seconds, pjrt_executable *executable)
{
  pjrt_executable_costs costs = {.size = sizeof costs, .executable = executable};
  pjrt_executable_memory m = {.size = sizeof m, .executable = executable};
  if (failed(path, api->executable_costs(&costs)) || failed(path, api->executable_memory(&m))) return 1;
  printf("ok\t%s\t%.2f\t%lld\t%lld\t%lld\t%lld\t%lld\t%.0f\t%.0f\n", path, seconds, (long long)m.code,
         (long long)m.arguments, (long long)m.results, (long long)m.shared, (long long)m.temporary,
         property(&costs, "flops"), property(&costs, "bytes accessed"));
  return 0;
}

/* executable_build_options { num_replicas: 1 num_partitions: n use_spmd_partitioning: true } */
static int compile(pjrt_topology *topology, int partitions, const char *path)
{
  const char options[] = {0x1a, 0x06, 0x20, 0x01, 0x28, (char)partitions, 0x30, 0x01};
  size_t size = 0;
  char *text = read_file(&size, path);
  pjrt_program program = {.size = sizeof program, .code = text, .code_size = size, .format = "mlir", .format_size = 4};
  pjrt_compile args = {.size = sizeof args, .topology = topology, .program = &program, .options = options,
                       .options_size = sizeof options};
  double begin = now();
  int bad = !text || failed(path, api->compile(&args));
  free(text);
  if (bad) return 1;
  bad = tell(path, now() - begin, args.executable);
  pjrt_executable_destroy end = {.size = sizeof end, .executable = args.executable};
  return failed(path, api->executable_destroy(&end)) || bad;
}

int main(int argc, char **argv)
{
  const pjrt_api *(*get)(void);
  char line[1200], path[1100];
  int partitions, bad = 0;
  void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL, *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;
  if (!symbol) return printf("bad\t%s\n", argc == 3 ? dlerror() : "compile LIBRARY TOPOLOGY"), 2;
  memcpy(&get, &symbol, sizeof get);
  api = get();
  pjrt_plugin_initialize begin = {.size = sizeof begin};
  pjrt_topology_create topology = {.size = sizeof topology, .name = argv[2], .name_size = strlen(argv[2])};
  if (failed("initialize", api->plugin_initialize(&begin))) return 2;
  if (failed(argv[2], api->topology_create(&topology))) return 2;
  while (fgets(line, sizeof line, stdin) && sscanf(line, "%d %1099s", &partitions, path) == 2) {
    bad += compile(topology.topology, partitions, path);
    fflush(stdout);
  }
  return bad != 0;
}
