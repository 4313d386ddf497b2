/* machine.c: measures this machine's CPU by kinds of work. See machine.h.
 *
 * Each probe is an op of usual size, run for some milliseconds; the fastest run counts, since a machine that others use
 * has slow moments, but no fast ones. */
#include "machine.h"

#include <cairn/cairn.h>
#include <cairn/nn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct probe {
  cn_tensor *in[5];
  int64_t stride, pad, groups;
  cn_module *module;
  cn_tensor *(*run)(const struct probe *p);
} probe;

double machine_clock(void)
{
  return cn_num_threads() == 1 ? (double)clock() / CLOCKS_PER_SEC : cn_clock();
}

static double time_of(const probe *p, int calls)
{
  double from = machine_clock();
  for (int i = 0; i < calls; i++) {
    cn_scope *s = cn_scope_begin();
    p->run(p);
    cn_scope_end(s);
  }
  return (machine_clock() - from) / calls;
}

/* The fastest run in so many seconds, three at least; short ones several at a time, so that a clock of microseconds
 * will do. Negative: an error. */
static double fastest(const probe *p, double seconds)
{
  enum { MOST = 4096 };
  const double tick = 100e-6;
  int calls = 1;
  double best = time_of(p, 1), begin = machine_clock();
  while (calls < MOST && (best = time_of(p, calls)) * calls < tick && !cn_err()) calls *= 2;
  for (int i = 0; (i < 3 || machine_clock() - begin < seconds) && !cn_err(); i++) best = fmin(best, time_of(p, calls));
  return cn_err() ? -1 : best;
}

/* ---- products ---- */

static cn_tensor *run_linear(const probe *p) { return cn_linear(p->in[0], p->in[1], NULL); }
static cn_tensor *run_conv(const probe *p)
{
  return cn_conv2d(p->in[0], p->in[1], NULL, .stride = CN_INTS(p->stride), .padding = CN_INTS(p->pad),
                   .groups = p->groups);
}
static cn_tensor *run_attention(const probe *p)
{
  return cn_scaled_dot_product_attention(p->in[0], p->in[1], p->in[2]);
}

static int add_probe(machine *m, const probe *p, machine_kind kind, const array_product *as, double taps)
{
  double took = fastest(p, 0.012), flops = 2.0 * (double)(as->count * as->m * as->k * as->n);
  if (took < 0) return cn_err();
  if (m->nprobes < MACHINE_PROBES && took > 0)
    m->probes[m->nprobes++] = (machine_probe){kind, (double)as->m, (double)as->k, (double)as->n, taps, flops / took};
  return CN_OK;
}

static int measure_large(machine *m)
{
  enum { SIDE = 1536 };
  cn_scope *s = cn_scope_begin();
  probe p = {.in = {cn_ones(CN_SHAPE(SIDE, SIDE)), cn_ones(CN_SHAPE(SIDE, SIDE))}, .run = run_linear};
  double took = cn_err() ? -1 : fastest(&p, 0.2);
  cn_scope_end(s);
  m->product = took > 0 ? 2.0 * SIDE * SIDE * SIDE / took : 0;
  return cn_err();
}

/* Channels in and out, the side of the result, of the window, stride, groups. */
static const int windows[][6] = {
  {64, 64, 224, 3, 1, 1}, {64, 64, 56, 3, 1, 1}, {128, 128, 28, 3, 1, 1}, {256, 256, 56, 3, 1, 1},
  {256, 256, 14, 3, 1, 1}, {512, 512, 28, 3, 1, 1}, {512, 512, 7, 3, 1, 1}, {128, 32, 28, 3, 1, 1},
  {16, 64, 55, 3, 1, 1}, {64, 192, 27, 5, 1, 1}, {1, 6, 28, 5, 1, 1}, {6, 16, 10, 5, 1, 1},
  {3, 64, 224, 3, 1, 1}, {32, 96, 14, 3, 1, 1}, {3, 64, 112, 7, 2, 1}, {3, 32, 112, 3, 2, 1},
  {3, 64, 55, 11, 4, 1}, {3, 768, 14, 16, 16, 1}, {64, 128, 28, 3, 2, 1}, {256, 512, 7, 3, 2, 1},
  {96, 192, 28, 2, 2, 1}, {64, 256, 56, 1, 1, 1}, {256, 64, 56, 1, 1, 1}, {512, 128, 28, 1, 1, 1},
  {256, 512, 28, 1, 2, 1}, {1024, 256, 14, 1, 1, 1}, {256, 1024, 14, 1, 1, 1}, {2048, 512, 7, 1, 1, 1},
  {16, 96, 112, 1, 1, 1}, {32, 192, 28, 1, 1, 1}, {144, 24, 56, 1, 1, 1}, {480, 80, 14, 1, 1, 1},
  {160, 960, 7, 1, 1, 1}, {960, 160, 7, 1, 1, 1}, {32, 32, 112, 3, 1, 32}, {96, 96, 56, 3, 2, 96},
  {144, 144, 56, 3, 1, 144}, {384, 384, 14, 3, 1, 384}, {960, 960, 7, 3, 1, 960}, {192, 192, 28, 3, 1, 192},
  {576, 576, 14, 3, 1, 576}, {240, 240, 28, 5, 1, 240}, {672, 672, 7, 5, 2, 672}, {96, 96, 56, 7, 1, 96},
  {384, 384, 14, 7, 1, 384}, {128, 128, 56, 3, 1, 32}, {512, 512, 14, 3, 1, 32}};

static int measure_windows(machine *m)
{
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const int *w = windows[i];
    int64_t taps = (int64_t)w[3] * w[3], pad = w[4] > 2 || w[3] < 3 ? 0 : w[3] / 2;
    int64_t side = (int64_t)(w[2] - 1) * w[4] + w[3] - 2 * pad;
    cn_scope *s = cn_scope_begin();
    probe p = {.in = {cn_randn(CN_SHAPE(1, w[0], side, side)), cn_randn(CN_SHAPE(w[1], w[0] / w[5], w[3], w[3]))},
               .stride = w[4], .pad = pad, .groups = w[5], .run = run_conv};
    work_node n = {.op = "conv2d", .taps = taps, .stride = w[4], .groups = w[5]};
    array_product as = {w[5], (int64_t)w[2] * w[2], w[0] / w[5] * taps, w[1] / w[5], 0};
    int status = cn_err() ? cn_err() : add_probe(m, &p, machine_kind_of(&n), &as, (double)taps);
    cn_scope_end(s);
    if (status) return status;
  }
  return CN_OK;
}

static const int products[][3] = {{50, 768, 3072},  {50, 3072, 768}, {64, 768, 768},   {197, 768, 768},
                                  {197, 768, 3072}, {64, 768, 16384}, {3136, 96, 384},  {784, 192, 768},
                                  {196, 384, 1536}, {64, 256, 1024}, {49, 3072, 768}};

static int measure_products(machine *m)
{
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const int *w = products[i];
    cn_scope *s = cn_scope_begin();
    probe p = {.in = {cn_randn(CN_SHAPE(w[0], w[1])), cn_randn(CN_SHAPE(w[2], w[1]))}, .run = run_linear};
    array_product as = {1, w[0], w[1], w[2], 0};
    int status = cn_err() ? cn_err() : add_probe(m, &p, MACHINE_PRODUCT, &as, 0);
    cn_scope_end(s);
    if (status) return status;
  }
  for (int length = 50; length < 800; length *= 4) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_randn(CN_SHAPE(1, 12, length, 64));
    probe p = {.in = {x, cn_clone(x), cn_clone(x)}, .run = run_attention};
    array_product as = {24, length, 64, length, 0};
    int status = cn_err() ? cn_err() : add_probe(m, &p, MACHINE_ATTENTION, &as, 0);
    cn_scope_end(s);
    if (status) return status;
  }
  return CN_OK;
}

/* ---- memory ---- */

static cn_tensor *run_copy(const probe *p) { return cn_copy_(p->in[0], p->in[1]); }

/* Half of a level's size, of the last one's four times, so that it is this level that is measured. */
static int measure_levels(machine *m)
{
  for (int i = 0; i < MACHINE_LEVELS; i++) {
    double below = i ? m->level[i - 1] : 0, bytes = i + 1 < MACHINE_LEVELS ? m->level[i] / 2 : fmax(4 * below, 64e6);
    if (i + 1 < MACHINE_LEVELS && m->level[i] <= below) continue;
    int64_t n = (int64_t)(bytes / 8), rows = (int64_t)sqrt(bytes / 4);
    cn_scope *s = cn_scope_begin();
    cn_tensor *from = cn_ones(CN_SHAPE(n));
    probe copy = {.in = {cn_empty_like(from), from}, .run = run_copy};
    probe read = {.in = {cn_ones(CN_SHAPE(1, rows)), cn_ones(CN_SHAPE(rows, rows))}, .run = run_linear};
    double took = cn_err() ? -1 : fastest(&copy, 0.06), other = took < 0 ? -1 : fastest(&read, 0.06);
    cn_scope_end(s);
    if (other < 0) return cn_err();
    m->copy[i] = 8.0 * (double)n / took;
    m->read[i] = 4.0 * (double)(rows * rows) / other;
  }
  return CN_OK;
}

/* ---- passes over memory ---- */

static cn_tensor *run_relu(const probe *p) { return cn_relu(p->in[0]); }
static cn_tensor *run_add(const probe *p) { return cn_add(p->in[0], p->in[1]); }
static cn_tensor *run_gelu(const probe *p) { return cn_gelu(p->in[0]); }
static cn_tensor *run_silu(const probe *p) { return cn_silu(p->in[0]); }
static cn_tensor *run_sigmoid(const probe *p) { return cn_sigmoid(p->in[0]); }
static cn_tensor *run_hardtanh(const probe *p) { return cn_hardtanh(p->in[0], .min_val = CN_ZERO, .max_val = 6); }
static cn_tensor *run_hardswish(const probe *p) { return cn_hardswish(p->in[0]); }
static cn_tensor *run_softmax(const probe *p) { return cn_softmax(p->in[0], -1); }
static cn_tensor *run_layer_norm(const probe *p) { return cn_layer_norm(p->in[0], CN_SHAPE(64), NULL, NULL); }
static cn_tensor *run_batch_norm(const probe *p)
{
  return cn_batch_norm(p->in[0], p->in[2], p->in[3], p->in[2], p->in[3]);
}
static cn_tensor *run_max_pool(const probe *p)
{
  return cn_max_pool2d(p->in[0], CN_SHAPE(3, 3), .stride = CN_INTS(2), .padding = CN_INTS(1));
}
static cn_tensor *run_avg_pool(const probe *p) { return cn_adaptive_avg_pool2d(p->in[0], CN_SHAPE(1, 1)); }
static cn_tensor *run_cat(const probe *p) { return cn_cat(CN_TENSORS(p->in[0], p->in[1]), .dim = 1); }

static const struct pass {
  const char *op;
  cn_tensor *(*run)(const probe *p);
} passes[] = {{"add", run_add},         {"relu", run_relu},       {"gelu", run_gelu},
              {"silu", run_silu},       {"sigmoid", run_sigmoid}, {"hardswish", run_hardswish},
              {"hardtanh", run_hardtanh},
              {"softmax", run_softmax}, {"layer_norm", run_layer_norm}, {"batch_norm", run_batch_norm},
              {"max_pool2d", run_max_pool}, {"adaptive_avg_pool2d", run_avg_pool}, {"cat", run_cat}};

static int measure_passes(machine *m)
{
  static const int sides[MACHINE_SIZES] = {8, 32, 224}; /* of 64 channels: 16 kB, 256 kB, 13 MB */
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    machine_stream *to = &m->streams[m->nstreams++];
    to->op = passes[i].op;
    for (int k = 0; k < MACHINE_SIZES; k++) {
      int64_t side = sides[k];
      cn_scope *s = cn_scope_begin();
      bool rows = passes[i].run == run_layer_norm || passes[i].run == run_softmax;
      cn_tensor *x = rows ? cn_randn(CN_SHAPE(side * side, 64)) : cn_randn(CN_SHAPE(1, 64, side, side));
      probe p = {.in = {x, cn_clone(x), cn_ones(CN_SHAPE(64)), cn_ones(CN_SHAPE(64))}, .run = passes[i].run};
      double took = cn_err() ? -1 : fastest(&p, 0.008);
      double times = passes[i].run == run_cat ? 2 : passes[i].run == run_max_pool ? 9.0 / 4 : 1; /* see work_node */
      cn_scope_end(s);
      if (took < 0) return cn_err();
      to->bytes[k] = 256.0 * (double)(side * side) * times;
      to->rate[k] = to->bytes[k] / fmax(took - m->launch, took / 4);
    }
  }
  return CN_OK;
}

/* ---- all ---- */

static cn_tensor *run_module(const probe *p) { return cn_forward(p->module, p->in[0]); }

/* A layer among others, with nothing to do. */
static int measure_launch(machine *m)
{
  enum { LAYERS = 4 };
  cn_module *net = cn_nn_sequential(cn_nn_relu(), cn_nn_relu(), cn_nn_relu(), cn_nn_relu());
  cn_scope *s = cn_scope_begin();
  probe p = {.in = {cn_ones(CN_SHAPE(1))}, .module = net, .run = run_module};
  m->launch = cn_err() ? 0 : fastest(&p, 0.01) / LAYERS;
  cn_scope_end(s);
  cn_module_release(net);
  return cn_err();
}

static int begin(machine *m)
{
  cn_device_info info;
  *m = (machine){.threads = cn_num_threads()};
  if (cn_device_info_get(&info, CN_CPU)) return cn_err();
  snprintf(m->name, sizeof m->name, "%s", info.name);
  snprintf(m->isa, sizeof m->isa, "%s", info.arch);
  for (int i = 0; i < 3; i++) m->level[i] = (double)info.cache[i];
  m->level[3] = INFINITY;
  return CN_OK;
}

int machine_measure_roofs(machine *m)
{
  int saved = cn_no_grad_begin(), status = begin(m);
  if (!status) status = measure_large(m);
  if (!status) status = measure_levels(m);
  cn_no_grad_end(saved);
  return status;
}

int machine_measure(machine *m)
{
  int saved = cn_no_grad_begin(), status = begin(m);
  if (!status) m->fma = machine_multiply_adds();
  if (!status) status = measure_launch(m);
  if (!status) status = measure_large(m);
  if (!status) status = measure_levels(m);
  if (!status) status = measure_windows(m);
  if (!status) status = measure_products(m);
  if (!status) status = measure_passes(m);
  cn_no_grad_end(saved);
  return status;
}

void machine_print(const machine *m)
{
  static const char *const names[] = {"L1", "L2", "L3", "memory"};
  printf("\nthis machine, measured: %s, %d thread%s, %s\n", m->name, m->threads, m->threads == 1 ? "" : "s", m->isa);
  if (m->fma > 0) printf("  multiply-adds   %.0f GFLOP/s in registers\n", m->fma / 1e9);
  printf("  product         %.0f GFLOP/s of float32", m->product / 1e9);
  if (m->fma > 0) printf(", %.0f %% of that", 100 * m->product / m->fma);
  printf("\n");
  for (int i = 0; i < MACHINE_LEVELS; i++)
    if (m->copy[i] > 0)
      printf("  %-15s %.1f GB/s copied (read and written), %.1f GB/s of weights read by a product\n", names[i],
             m->copy[i] / 1e9, m->read[i] / 1e9);
  printf("  an op           %.2f us at least\n", m->launch * 1e6);
}
