/* callers.c: one executable, several threads that call it at once, each with a thread budget of one: how many runs a
 * second they get done together, and how much memory each of them adds.
 *
 * Place in the flow: bench/run --only callers starts it and prints the rows.
 *
 *     callers [SECONDS [CALLERS,...]]
 *
 * Numbers of callers take turns, ROUNDS times SECONDS each, so that a slow minute of the machine meets all of them;
 * medians count. One JSON line for each: callers; runs a second; that over one caller's; the same by the cores' seconds
 * that callers had, which is what they would get done if nobody else wanted the cores; and the bytes of memory that are
 * held more than with one caller. The weights' bytes stand beside, since there should be one copy of them. Results of
 * all runs are compared with the first. Invariant: callers share nothing of the program's but the graph and the
 * input, so that whatever they wait for is the library's.
 */
#include "../serve.h"

#include <cairn/cairn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { MOST_CALLERS = 64, MOST_NUMBERS = 8, ROUNDS = 5 };

static cn_graph *graph;
static cn_tensor *image; /* (1, 16, 16, 16) */
static float expected[10];
static _Atomic int ready, go, stop;

struct caller {
  pthread_t thread;
  long runs;
  int wrong;
  double core_seconds;
};

struct rate {
  double by_clock, by_core; /* runs a second, of the clock and of a core */
};

static int forward(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

static void run_once(float *result)
{
  const cn_run_opts alone = {.size = sizeof alone, .threads = 1};
  cn_scope *s = cn_scope_begin();
  cn_tensor *out = NULL;
  bench_require(!cn_graph_run_with(&out, graph, &image, &alone), cn_err_message());
  cn_to_data(result, sizeof expected, out);
  cn_scope_end(s);
}

static double core_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *call(void *payload)
{
  struct caller *c = payload;
  float result[10];
  run_once(result);
  atomic_fetch_add(&ready, 1);
  while (!atomic_load(&go)) {}
  double begin = core_seconds();
  for (; !atomic_load_explicit(&stop, memory_order_relaxed); c->runs++) {
    run_once(result);
    c->wrong += memcmp(result, expected, sizeof expected) != 0;
  }
  c->core_seconds = core_seconds() - begin;
  return NULL;
}

/* n callers, for so long. */
static struct rate round_of(int n, double seconds)
{
  struct caller callers[MOST_CALLERS] = {{0}};
  long runs = 0;
  double cores = 0;
  atomic_store(&ready, 0);
  atomic_store(&go, 0);
  atomic_store(&stop, 0);
  for (int i = 0; i < n; i++)
    bench_require(!pthread_create(&callers[i].thread, NULL, call, &callers[i]), "no thread");
  while (atomic_load(&ready) < n) {}
  double begin = bench_now();
  struct timespec length = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  atomic_store(&go, 1);
  nanosleep(&length, NULL);
  atomic_store(&stop, 1);
  double took = bench_now() - begin;
  for (int i = 0; i < n; i++) {
    pthread_join(callers[i].thread, NULL);
    runs += callers[i].runs;
    cores += callers[i].core_seconds;
    bench_require(!callers[i].wrong, "a result differs");
  }
  return (struct rate){(double)runs / took, (double)runs / cores};
}

static size_t held(void)
{
  cn_memory_stats m;
  cn_memory_trim();
  cn_memory_get_stats(&m);
  return m.in_use - m.cached;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *rates)
{
  qsort(rates, ROUNDS, sizeof *rates, by_size);
  return rates[ROUNDS / 2];
}

static size_t make_graph(void)
{
  cn_seed(1);
  cn_module *net = cn_nn_sequential(
      cn_nn_conv2d(16, 32, 3, .padding = CN_INTS(1)), cn_nn_relu(), cn_nn_conv2d(32, 32, 3, .padding = CN_INTS(1)),
      cn_nn_relu(), cn_nn_max_pool2d(2), cn_nn_flatten(), cn_nn_linear(32 * 8 * 8, 256), cn_nn_relu(),
      cn_nn_linear(256, 10));
  float *pixels = malloc(16 * 16 * 16 * sizeof *pixels);
  size_t weights = 0;
  bench_require(pixels != NULL, "out of memory");
  bench_fill(pixels, 16 * 16 * 16, 2, 1);
  cn_set(&image, cn_from_data(pixels, CN_SHAPE(1, 16, 16, 16), CN_F32));
  free(pixels);
  graph = cn_trace(forward, 1, &image, 1, net);
  bench_require(graph && cn_graph_optimise(graph) >= 0, cn_err_message());
  for (size_t i = 0; i < cn_graph_states(graph); i++) weights += cn_tensor_nbytes(cn_graph_state(graph, i));
  return weights; /* the graph keeps them */
}

/* "1,2,4" */
static int read_numbers(int *numbers, const char *text)
{
  int n = 0;
  for (; *text && n < MOST_NUMBERS; text += *text == ',') {
    char *end;
    numbers[n] = (int)strtol(text, &end, 10);
    bench_require(end > text && numbers[n] >= 1 && numbers[n] <= MOST_CALLERS, "callers [SECONDS [CALLERS,...]]");
    text = end;
    n++;
  }
  return n;
}

int main(int argc, char **argv)
{
  double seconds = argc > 1 ? atof(argv[1]) : 0.3, rates[2][MOST_NUMBERS][ROUNDS];
  struct rate first = {0, 0};
  int numbers[MOST_NUMBERS], n = read_numbers(numbers, argc > 2 ? argv[2] : "1,2,4");
  size_t weights = make_graph(), memory[MOST_NUMBERS];
  run_once(expected);
  for (int i = 0; i < n; i++) { /* warms up; memory is what a larger number adds */
    round_of(numbers[i], seconds / 4);
    memory[i] = held();
  }
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < n; i++) {
      struct rate r = round_of(numbers[i], seconds);
      rates[0][i][round] = r.by_clock;
      rates[1][i][round] = r.by_core;
    }
  for (int i = 0; i < n; i++) {
    struct rate r = {median(rates[0][i]), median(rates[1][i])};
    if (!i) first = (struct rate){r.by_clock / numbers[0], r.by_core};
    printf("{\"callers\": %d, \"runs_per_second\": %.1f, \"ratio\": %.3f, \"ratio_by_core\": %.3f, "
           "\"more_bytes\": %lld, \"weights\": %zu}\n",
           numbers[i], r.by_clock, r.by_clock / first.by_clock, numbers[i] * r.by_core / first.by_core,
           (long long)memory[i] - (long long)memory[0], weights);
  }
  cn_graph_free(graph);
  return 0;
}
