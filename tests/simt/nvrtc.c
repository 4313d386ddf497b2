/* nvrtc.c: NVRTC for tests on machines without a GPU: the text of a kernel, behind simt.h, becomes a shared library by
 * the system's C++ compiler.
 *
 * Place in the flow: a part of the emulated driver's library, beside simt.c, which loads what this makes. Invariant: a
 * kernel's entry takes the address of its argument, and says how large that is. */
#define _GNU_SOURCE
#include <nvrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simt_driver.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct program {
  char *source, *image, log[4000];
  size_t size;
} program;

EXPORT nvrtcResult nvrtcVersion(int *major, int *minor) { *major = 0, *minor = 1; return NVRTC_SUCCESS; }
EXPORT const char *nvrtcGetErrorString(nvrtcResult r) { return r == NVRTC_SUCCESS ? "success" : "the compiler failed"; }
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int n,
                                      const char *const *headers, const char *const *names)
{
  (void)name, (void)n, (void)headers, (void)names;
  program *made = calloc(1, sizeof *made);
  made->source = strdup(source);
  *p = (nvrtcProgram)made;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p)
{
  program *made = (program *)*p;
  free(made->source);
  free(made->image);
  free(made);
  *p = NULL;
  return NVRTC_SUCCESS;
}

/* A program's own kernel has an entry that takes the addresses of all its arguments, and says how large each is. */
static void write_own(FILE *f, const char *text)
{
  static const char head[] = "extern \"C\" __global__ void ";
  char name[100];
  for (const char *kernel = strstr(text, head); kernel; kernel = strstr(kernel + 1, head)) {
    if (sscanf(kernel + strlen(head), "%99[A-Za-z0-9_]", name) != 1 || kernel[strlen(head) + strlen(name)] != '(')
      continue;
    fprintf(f, "\nextern \"C\" void simt_%s(void **a) { simt_call(%s, a); }\n", name, name);
    fprintf(f, "extern \"C\" const unsigned long *const %s_sizes; ", name);
    fprintf(f, "const unsigned long *const %s_sizes = simt_sizes(%s);\n", name, name);
  }
}

/* Generated loops are kernels that take a struct by value, or its address: they get an entry that takes a pointer to
 * their argument, whose size is known. */
static void write_source(FILE *f, const char *text)
{
  static const char head[] = "extern \"C\" __global__ void __launch_bounds__(";
  const char *kernel = strstr(text, head);
  fprintf(f, "#include \"simt.h\"\n%s", text);
  if (!kernel) {
    write_own(f, text);
    return;
  }
  char name[100] = "", type[100] = "";
  bool by_value = sscanf(kernel + strlen(head), "%*d) %99[^(](const __grid_constant__ %99[^ ]", name, type) == 2;
  if (!by_value) snprintf(type, sizeof type, "cn_loop *");
  fprintf(f, "\nextern \"C\" void simt_%s(void **a) { %s(*(%s const *)a[0]); }\n", name, name, type);
  fprintf(f, "extern \"C\" const unsigned long %s_size; const unsigned long %s_size = sizeof(%s);\n", name, name, type);
}

static char *read_all(const char *path, size_t *size)
{
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  char *bytes = malloc(*size + 1);
  *size = fread(bytes, 1, *size, f);
  bytes[*size] = 0;
  fclose(f);
  return bytes;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int n, const char *const *options)
{
  program *p = (program *)handle;
  char base[256], path[300], command[2000];
  bool exact = false;
  char defined[500] = ""; /* what a program's own kernel is compiled with */
  size_t at = 0;
  for (int i = 0; i < n; i++) {
    exact = exact || !strcmp(options[i], "--fmad=false");
    if (!strncmp(options[i], "-D", 2) && at < sizeof defined)
      at += (size_t)snprintf(defined + at, sizeof defined - at, " '%s'", options[i]);
  }
  simt_temporary(base, sizeof base);
  int made = mkstemp(base);
  if (made < 0) return NVRTC_ERROR_COMPILATION;
  close(made);
  snprintf(path, sizeof path, "%s.cpp", base);
  FILE *f = fopen(path, "w");
  write_source(f, p->source);
  fclose(f);
  const char *flags = getenv("SIMT_CXXFLAGS");
  snprintf(command, sizeof command,
           "${CXX:-c++} -std=c++17 -w -shared -fPIC %s -fwrapv -fno-strict-aliasing -ffp-contract=%s -I%s%s -o "
           "%s.so %s.cpp 2>%s.log",
           flags ? flags : exact ? "-O0" : "-O1", exact ? "off" : "fast", SIMT_FOLDER, defined, base, base, base);
  int status = system(command);
  size_t size = 0;
  snprintf(path, sizeof path, "%s.log", base);
  char *log = read_all(path, &size);
  if (log) snprintf(p->log, sizeof p->log, "%s", log);
  free(log);
  snprintf(path, sizeof path, "%s.so", base);
  if (!status) p->image = read_all(path, &p->size);
  snprintf(command, sizeof command, "rm -f %s %s.cpp %s.so %s.log", base, base, base, base);
  if (!getenv("SIMT_KEEP") && system(command)) return NVRTC_ERROR_INTERNAL_ERROR;
  return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *n) { *n = ((program *)p)->size; return NVRTC_SUCCESS; }
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *to)
{
  memcpy(to, ((program *)p)->image, ((program *)p)->size);
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n)
{
  *n = strlen(((program *)p)->log) + 1;
  return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *to)
{
  strcpy(to, ((program *)p)->log);
  return NVRTC_SUCCESS;
}
