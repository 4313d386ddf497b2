/* machine.c: the limits of the machine itself, measured in the same run as everything else: how many
 * f32 multiply-adds it can do, with the instruction set that is measured, and how fast it can copy memory.
 *
 * Invariant: the fma kernel keeps twelve independent sums in registers, enough to cover the latency of
 * two units, and touches no memory; nothing that computes in f32 vectors can be faster. The threads live as
 * long as the program: bench/run reads from the system how long they stood in line for a core, which it
 * could not of threads that are gone at the end of a round, and measures a disturbed round again.
 */
#include "../serve.h"

#include <pthread.h>

#define SUMS 12
#define FMA_STEPS 2000000L
#define COPY_BYTES ((size_t)64 << 20)
#define MAX_THREADS 256

struct task {
  long calls;
  size_t from, bytes; /* of copy */
  float result;       /* of fma; kept, so that the sums are not optimised away */
  void (*run)(struct task *);
};

/* One kernel per vector width, with the compiler's vector types, so that it serves every machine. */
#define FMA_KERNEL(name, width, target)                                                       \
  typedef float name##_vector __attribute__((vector_size(width)));                            \
  target static float name(long n)                                                            \
  {                                                                                           \
    name##_vector sum[SUMS], k = {0}, c = {0};                                                \
    k += 0.999f, c += 1e-3f;                                                                  \
    _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sum[i] = c * (float)i;            \
    for (n *= FMA_STEPS; n > 0; n--) {                                                        \
      _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * k + c;        \
    }                                                                                         \
    _Pragma("GCC unroll 12") for (int i = 1; i < SUMS; i++) sum[0] += sum[i];                 \
    return sum[0][0];                                                                         \
  }

FMA_KERNEL(fma_128, 16, )
#if defined(__x86_64__)
FMA_KERNEL(fma_256, 32, __attribute__((target("avx2,fma"))))
FMA_KERNEL(fma_512, 64, __attribute__((target("avx512f"))))
#endif

static int threads;
static float (*fma_kernel)(long n) = fma_128;
static char *source, *target;

static void fma_task(struct task *t)
{
  t->result = fma_kernel(t->calls);
}

static void copy_task(struct task *t)
{
  for (long n = t->calls; n > 0; n--) memcpy(target + t->from, source + t->from, t->bytes);
}

/* Task 0 is the caller's; every other one has a thread that waits for the next round. */
static struct task task[MAX_THREADS];
static pthread_barrier_t begin, end;

static void *work(void *p)
{
  struct task *t = p;
  for (;;) {
    pthread_barrier_wait(&begin);
    t->run(t);
    pthread_barrier_wait(&end);
  }
  return NULL;
}

static void start_threads(void)
{
  pthread_barrier_init(&begin, NULL, (unsigned)threads);
  pthread_barrier_init(&end, NULL, (unsigned)threads);
  for (int i = 1; i < threads; i++) {
    pthread_t id;
    bench_require(!pthread_create(&id, NULL, work, &task[i]), "machine: a thread does not start");
    pthread_detach(id);
  }
}

/* Every thread does its share of all n calls; they need not meet in between. */
static void on_all_threads(void (*run)(struct task *), long n)
{
  size_t share = COPY_BYTES / (size_t)threads;
  for (int i = 0; i < threads; i++) task[i] = (struct task){n, (size_t)i * share, share, 0, run};
  pthread_barrier_wait(&begin);
  run(&task[0]);
  pthread_barrier_wait(&end);
}

static void run_fma(long n)
{
  on_all_threads(fma_task, n);
}

static void run_copy(long n)
{
  on_all_threads(copy_task, n);
}

static int setup_none(void)
{
  return 0;
}

static int setup_copy(void)
{
  if (!source) source = malloc(COPY_BYTES);
  if (!target) target = malloc(COPY_BYTES);
  if (!source || !target) return -1;
  memset(source, 1, COPY_BYTES);
  memset(target, 0, COPY_BYTES);
  return 0;
}

static double check_nothing(void)
{
  return 0;
}

int main(int argc, char **argv)
{
  double lanes = 4;
  threads = bench_threads(argc, argv);
  if (threads > MAX_THREADS) threads = MAX_THREADS;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fma_kernel = fma_256, lanes = 8;
  const char *isa = getenv("CAIRN_ISA"); /* what the other sides may use at most */
  int capped = isa && strcmp(isa, "avx512") != 0;
  if (__builtin_cpu_supports("avx512f") && !capped) fma_kernel = fma_512, lanes = 16;
#endif
  start_threads();
  const struct bench_work works[] = {
    {"machine_fma", "", "flop", (double)threads * FMA_STEPS * SUMS * lanes * 2, setup_none, run_fma,
     check_nothing},
    {"machine_copy", "", "byte", 2.0 * (double)COPY_BYTES, setup_copy, run_copy, check_nothing},
  };
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
