/* launch.c: an add of 16 floats on the GPU, from C, beside a bare launch of the driver's: what an op costs the host.
 *
 * usage: launch [ROUNDS]      Prints microseconds a call of each, medians of ROUNDS (21) taken in turn, and the ratio.
 * Invariant: both queue one kernel with an argument of about the same size into the same stream, and nothing waits
 * within a round. */
#include <cairn/cairn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 500, WARM = 5, MOST = 1000, N = 16 };

/* What is needed of the driver's interface; handles are pointers there. */
typedef struct argument {
  long long words[9];
} argument;
static int (*module_load)(void **module, const void *image);
static int (*module_function)(void **function, void *module, const char *name);
static int (*launch_kernel)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, void *stream, void **arguments, void **extra);

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry nothing(.param .align 8 .b8 a[72]) { ret; }\n";

static int require(int fine, const char *what)
{
  if (fine) return 1;
  fprintf(stderr, "launch: %s\n", what);
  exit(1);
}

static void *symbol(void *library, const char *name)
{
  void *found = dlsym(library, name);
  require(found != NULL, name);
  return found;
}

static void *bare_kernel(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *module, *function, *s;
  require(driver != NULL, "there is no libcuda.so.1");
  memcpy(&module_load, (s = symbol(driver, "cuModuleLoadData"), &s), sizeof s);
  memcpy(&module_function, (s = symbol(driver, "cuModuleGetFunction"), &s), sizeof s);
  memcpy(&launch_kernel, (s = symbol(driver, "cuLaunchKernel"), &s), sizeof s);
  require(!module_load(&module, text) && !module_function(&function, module, "nothing"), "loading the bare kernel");
  return function;
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_bare(void *kernel, void *stream)
{
  argument a = {{0}};
  void *arguments[] = {&a};
  double begin = seconds();
  for (int i = 0; i < CALLS; i++)
    require(!launch_kernel(kernel, 1, 1, 1, 256, 1, 1, 0, stream, arguments, NULL), "a bare launch");
  return (seconds() - begin) / CALLS;
}

static double time_add(cn_tensor *x, cn_tensor *y)
{
  double begin = seconds();
  for (int i = 0; i < CALLS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_add(x, y);
    cn_scope_end(s);
  }
  require(!cn_err(), cn_err_message());
  return (seconds() - begin) / CALLS;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  static double bare[MOST], add[MOST];
  int rounds = argc > 1 ? atoi(argv[1]) : 21;
  require(rounds > 0 && rounds <= MOST, "ROUNDS is from 1 to 1000");
  cn_device device = cn_device_find("cuda");
  require(device != CN_DEVICE_DEFAULT, cn_err_message());
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(N), .device = device), *y = cn_ones(CN_SHAPE(N), .device = device);
  require(cn_item(cn_sum(cn_add(x, y))) == 2 * N, "the sum is wrong");
  void *kernel = bare_kernel(), *stream = cn_device_stream(device);
  for (int i = -WARM; i < rounds; i++) {
    double b = time_bare(kernel, stream);
    cn_device_sync(device);
    double a = time_add(x, y);
    cn_device_sync(device);
    if (i >= 0) bare[i] = b, add[i] = a;
  }
  cn_scope_end(s);
  qsort(bare, (size_t)rounds, sizeof *bare, by_size);
  qsort(add, (size_t)rounds, sizeof *add, by_size);
  printf("add of 16 from C %.2f us, a bare launch %.2f us, ratio %.2f\n", 1e6 * add[rounds / 2], 1e6 * bare[rounds / 2],
         add[rounds / 2] / bare[rounds / 2]);
  return 0;
}
