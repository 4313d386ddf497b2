/* libraries.c: opens the vendor's libraries, each when it is first needed, and finds their functions.
 *
 * Place in the flow: the bottom of the plugin, the one file that calls dlopen. Invariant: a library counts as absent
 * unless every function in its list was found, but for those that a driver may lack; absence sets no error. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "dnn.h"
#include "fft.h"
#include "plugin.h"
#include "solver.h"

/* Names of functions and where their pointers go, as offsets into a table of pointers. */
typedef struct entry {
  const char *name;
  size_t offset;
} entry;

/* Two steps, because cuda.h renames functions (cuMemAlloc is cuMemAlloc_v2) by macros. */
#define DRIVER_ENTRY(f) DRIVER_NAMED(f)
#define DRIVER_NAMED(f) {#f, offsetof(cni_cuda_driver_table, f)},
#define GRAPH_ENTRY(f) GRAPH_NAMED(f)
#define GRAPH_NAMED(f) {#f, offsetof(cni_cuda_graph_table, f)},
#define NVRTC_ENTRY(f) {#f, offsetof(cni_cuda_nvrtc_table, f)},
#define BLASLT_ENTRY(f) {#f, offsetof(cni_cuda_blaslt_table, f)},
static const entry driver_entries[] = {CNI_CUDA_DRIVER(DRIVER_ENTRY){NULL, 0}};
static const entry more_driver_entries[] = {CNI_CUDA_DRIVER_MORE(DRIVER_ENTRY){NULL, 0}};
static const entry graph_entries[] = {CNI_CUDA_GRAPHS(GRAPH_ENTRY){NULL, 0}};
static const entry nvrtc_entries[] = {CNI_CUDA_NVRTC(NVRTC_ENTRY){NULL, 0}};
static const entry blaslt_entries[] = {CNI_CUDA_BLASLT(BLASLT_ENTRY){NULL, 0}};

enum { PATH = 1024 };

static void *open_file(const char *folder, const char *below, const char *name)
{
  char path[PATH];
  int n = snprintf(path, sizeof path, "%s/%s%s", folder, below, name);
  return n < PATH ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* In a folder, in its lib, or in that of a folder in it: pip has nvidia/cudnn/lib, nvidia/cu13/lib. */
static void *open_below(const char *folder, const char *name)
{
  char below[300];
  void *library = open_file(folder, "", name);
  if (!library) library = open_file(folder, "lib/", name);
  DIR *listed = library ? NULL : opendir(folder);
  for (const struct dirent *e; listed && !library && (e = readdir(listed));) {
    if (e->d_name[0] == '.') continue;
    snprintf(below, sizeof below, "%s/lib/", e->d_name);
    library = open_file(folder, below, name);
  }
  if (listed) closedir(listed);
  return library;
}

/* folders: "a:b", or NULL. */
static void *open_in(const char *folders, const char *const *names)
{
  char folder[PATH];
  void *library = NULL;
  for (size_t n; folders && *folders && !library; folders += n + (folders[n] == ':')) {
    n = strcspn(folders, ":");
    snprintf(folder, sizeof folder, "%.*s", (int)(n < PATH ? n : 0), folders);
    for (int i = 0; *folder && names[i] && !library; i++) library = open_below(folder, names[i]);
  }
  return library;
}

/* What the process has already (another library's); where the user says; by the loader's own search; where a language
 * keeps its packages; in a toolkit's usual places. */
static void *open_library(const char *const *names)
{
  const char *toolkits[] = {cni_cuda_host->env("CUDA_HOME"), cni_cuda_host->env("CUDA_PATH"), "/usr/local/cuda"};
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library) library = open_in(cni_cuda_host->env("CAIRN_CUDA_LIBRARIES"), names);
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) library = open_in(cni_cuda_host->library_folders(), names);
  for (int k = 0; k < 3 && !library; k++)
    for (int i = 0; toolkits[k] && names[i] && !library; i++) library = open_file(toolkits[k], "lib64/", names[i]);
  if (!library) cni_cuda_host->log(CN_LOG_DEBUG, "cuda: %s is not here", names[0]);
  return library;
}

/* The first of the functions that is not there, or NULL. `all`: go on behind it, which stays NULL in the table. */
static const char *find_functions(void *table, const entry *entries, void *library, bool all)
{
  const char *missing = NULL;
  for (const entry *e = entries; e->name && (all || !missing); e++) {
    void *symbol = dlsym(library, e->name);
    if (symbol) memcpy((char *)table + e->offset, &symbol, sizeof symbol);
    else if (!missing) missing = e->name;
  }
  return missing;
}

static bool fill_with(void *table, const entry *entries, const entry *more, const char *const *names)
{
  void *library = open_library(names);
  const char *missing = library ? find_functions(table, entries, library, false) : NULL;
  if (missing) {
    cni_cuda_host->log(CN_LOG_WARNING, "cuda: %s has no %s", names[0], missing);
    dlclose(library);
    return false;
  }
  missing = library && more ? find_functions(table, more, library, true) : NULL;
  if (missing) cni_cuda_host->log(CN_LOG_WARNING, "cuda: %s has no %s: what needs it is left out", names[0], missing);
  return library != NULL;
}
static bool fill(void *table, const entry *entries, const char *const *names)
{
  return fill_with(table, entries, NULL, names);
}

static cni_cuda_driver_table driver;
static cni_cuda_graph_table graphs;
static cni_cuda_nvrtc_table nvrtc;
static cni_cuda_blaslt_table blaslt;
static bool has_driver, has_graphs, has_nvrtc, has_blaslt;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT, graphs_once = PTHREAD_ONCE_INIT,
                      nvrtc_once = PTHREAD_ONCE_INIT, blaslt_once = PTHREAD_ONCE_INIT;

static void load_driver(void)
{
  static const char *const names[] = {"libcuda.so.1", NULL}; /* never the toolkit's stub, which is libcuda.so */
  has_driver = fill_with(&driver, driver_entries, more_driver_entries, names);
}

static void load_graphs(void)
{
  static const char *const names[] = {"libcuda.so.1", NULL};
  has_graphs = fill(&graphs, graph_entries, names);
}

static void load_nvrtc(void)
{
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  has_nvrtc = fill(&nvrtc, nvrtc_entries, names);
}

static void load_blaslt(void)
{
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
  has_blaslt = fill(&blaslt, blaslt_entries, names);
}

const cni_cuda_driver_table *cni_cuda_driver(void)
{
  pthread_once(&driver_once, load_driver);
  return has_driver ? &driver : NULL;
}

const cni_cuda_graph_table *cni_cuda_graphs(void)
{
  pthread_once(&graphs_once, load_graphs);
  return has_graphs ? &graphs : NULL;
}

const cni_cuda_nvrtc_table *cni_cuda_nvrtc(void)
{
  pthread_once(&nvrtc_once, load_nvrtc);
  return has_nvrtc ? &nvrtc : NULL;
}

const cni_cuda_blaslt_table *cni_cuda_blaslt(void)
{
  pthread_once(&blaslt_once, load_blaslt);
  return has_blaslt ? &blaslt : NULL;
}

#ifdef CNI_HAVE_CUDNN_H
#define DNN_ENTRY(f) {#f, offsetof(cni_cuda_dnn_table, f)},
static const entry dnn_entries[] = {CNI_CUDA_DNN(DNN_ENTRY){NULL, 0}};
static cni_cuda_dnn_table dnn;
static bool has_dnn;
static pthread_once_t dnn_once = PTHREAD_ONCE_INIT;

static void load_dnn(void)
{
  static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
  has_dnn = fill(&dnn, dnn_entries, names);
}

const cni_cuda_dnn_table *cni_cuda_dnn(void)
{
  pthread_once(&dnn_once, load_dnn);
  return has_dnn ? &dnn : NULL;
}
#endif

#ifdef CNI_HAVE_CUFFT_H
#define FFT_ENTRY(f) {#f, offsetof(cni_cuda_fft_table, f)},
static const entry fft_entries[] = {CNI_CUDA_FFT(FFT_ENTRY){NULL, 0}};
static cni_cuda_fft_table fft;
static bool has_fft;
static pthread_once_t fft_once = PTHREAD_ONCE_INIT;

static void load_fft(void)
{
  static const char *const names[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so", NULL};
  has_fft = fill(&fft, fft_entries, names);
}

const cni_cuda_fft_table *cni_cuda_fft(void)
{
  pthread_once(&fft_once, load_fft);
  return has_fft ? &fft : NULL;
}
#endif

#ifdef CNI_HAVE_CUSOLVER_H
#define SOLVER_ENTRY(f) {#f, offsetof(cni_cuda_solver_table, f)},
#define BLAS_ENTRY(f) {#f, offsetof(cni_cuda_blas_table, f)},
static const entry solver_entries[] = {CNI_CUDA_SOLVER(SOLVER_ENTRY){NULL, 0}};
static const entry blas_entries[] = {CNI_CUDA_BLAS(BLAS_ENTRY){NULL, 0}};
static cni_cuda_solver_table solver;
static cni_cuda_blas_table blas;
static bool has_solver, has_blas;
static pthread_once_t solver_once = PTHREAD_ONCE_INIT, blas_once = PTHREAD_ONCE_INIT;

static void load_solver(void)
{
  static const char *const names[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so", NULL};
  has_solver = fill(&solver, solver_entries, names);
}

static void load_blas(void)
{
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
  has_blas = fill(&blas, blas_entries, names);
}

const cni_cuda_solver_table *cni_cuda_solver(void)
{
  pthread_once(&solver_once, load_solver);
  return has_solver ? &solver : NULL;
}

const cni_cuda_blas_table *cni_cuda_blas(void)
{
  pthread_once(&blas_once, load_blas);
  return has_blas ? &blas : NULL;
}
#endif
