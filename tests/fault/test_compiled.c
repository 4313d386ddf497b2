/* test_compiled.c: every allocation fails once while functions are captured, compiled, checked against themselves and
 * run, while graphs are replayed, become modules and go through files: an error of memory, or the right numbers;
 * nothing stays behind, and the next time is right. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/ext/graph.h>
#include <cairn/kw.h>
#include <stdio.h>
#include <stdlib.h>

#include "sweep.h"

static const char path[] = "test_compiled_memory.safetensors";

/* ---- whole training steps ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
  cn_schedule *schedule; /* steps on the host; NULL: none */
} trainer;

static int trainer_make(trainer *t, cn_device device, bool schedule)
{
  *t = (trainer){.net = cn_nn_sequential(cn_nn_linear(3, 4), cn_nn_batch_norm1d(4), cn_nn_dropout(.p = 0.5),
                                         cn_nn_linear(4, 2))};
  if (t->net) cn_module_to(t->net, device, CN_DTYPE_NONE);
  if (!cn_err()) t->optim = cn_optim_sgd(t->net, .lr = 0.1, .momentum = 0.9);
  if (!cn_err() && schedule) t->schedule = cn_lr_step(t->optim, 2, .gamma = 0.5);
  return cn_err();
}

static void trainer_free(trainer *t)
{
  cn_schedule_free(t->schedule);
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static int step(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_tensor *loss = cn_mean(cn_square(cn_tanh(cn_forward(t->net, k->inputs[0]))));
  cn_backward(loss);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  if (t->schedule) cn_schedule_step(t->schedule);
  k->outputs[0] = loss;
  k->noutputs = 1;
  return cn_err();
}

static double weights(cn_module *net)
{
  cn_named_list list;
  double sum = 0;
  if (cn_err() || cn_module_named(&list, net, CN_PARAMETERS | CN_BUFFERS)) return 0;
  for (size_t i = 0; i < list.n; i++) sum += sweep_sum(cn_to_device(list.v[i].tensor, CN_CPU));
  cn_named_free(&list);
  return sum;
}

/* One result of a call of c with one input, added to *result. */
static int call(cn_compiled *c, void *payload, cn_tensor *x, double *result)
{
  cn_tensor *out = NULL;
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1, .payload = payload};
  if (cn_err() || cn_compiled_call(c, &k)) return cn_err();
  *result += sweep_sum(cn_to_device(out, CN_CPU));
  return cn_err();
}

static int train(double *result, cn_device device, bool schedule, int steps)
{
  trainer t;
  cn_compiled *c = trainer_make(&t, device, schedule) ? NULL : cn_compile(step, .fullgraph = true);
  cn_tensor *x = c ? cn_to_device(cn_randn(CN_SHAPE(4, 3)), device) : NULL;
  for (int i = 0; x && i < steps; i++)
    if (call(c, &t, x, result)) break;
  *result += weights(t.net);
  cn_compiled_free(c);
  trainer_free(&t);
  return cn_err();
}

static int compiled_steps(double *result) { return train(result, CN_CPU, true, 3); }
static int compiled_steps_on_a_device(double *result) { return train(result, cn_device_find("mirror"), false, 3); }

static int checked_steps(double *result)
{
  setenv("CAIRN_COMPILE", "check", 1);
  int status = train(result, CN_CPU, false, 2);
  unsetenv("CAIRN_COMPILE");
  return status;
}

/* ---- a program that is not its function ---- */

static int arcs(cn_compile_call *k)
{
  k->outputs[0] = cn_add(cn_asinh(cn_mul(k->inputs[0], cn_num(2))), cn_num(1));
  k->noutputs = 1;
  return cn_err();
}

/* The error that the check is there for, or one of memory. */
static int found_differences(double *result)
{
  setenv("CAIRN_COMPILE", "check", 1);
  cn_compiled *c = cn_compile(arcs);
  int status = c ? call(c, NULL, cn_ones(CN_SHAPE(3)), result) : cn_err();
  if (status == CN_ERR_CAPTURE) {
    *result = 1;
    cn_err_clear();
  }
  cn_compiled_free(c);
  unsetenv("CAIRN_COMPILE");
  return cn_err();
}

/* ---- forward passes in an eager loop ---- */

static int forward(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0], *h = cn_dropout(cn_sin(cn_mul(x, k->inputs[1])), .p = 0.25);
  k->outputs[0] = cn_sum(cn_mul(h, h), .dim = CN_INTS(1));
  k->outputs[1] = cn_transpose(x, 0, 1); /* shows an input */
  k->noutputs = 2;
  return cn_err();
}

/* Gradients, and gradients of those, which replay the forward graph op by op. */
static int compiled_gradients(double *result)
{
  cn_tensor *in[2] = {cn_requires_grad(cn_randn(CN_SHAPE(3, 2)), true), cn_requires_grad(cn_ones(CN_SHAPE(2)), true)};
  cn_compiled *c = cn_err() ? NULL : cn_compile(forward, .fullgraph = true);
  for (int i = 0; c && i < 2; i++) {
    cn_tensor *out[2], *g[2], *gg[2];
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = out, .noutputs = 2};
    if (cn_compiled_call(c, &k)) break;
    cn_tensor *loss = cn_add(cn_sum(cn_square(out[0])), cn_sum(out[1])), *second;
    if (!loss || cn_grad(g, &loss, 1, in, 2, .create_graph = i == 1)) break;
    *result += sweep_sum(g[0]) + sweep_sum(g[1]);
    if (i == 0) continue;
    second = cn_sum(cn_mul(g[0], g[0]));
    if (!second || cn_grad(gg, &second, 1, in, 2)) break;
    *result += sweep_sum(gg[0]) + sweep_sum(gg[1]);
  }
  cn_compiled_free(c);
  return cn_err();
}

/* ---- a program that may be rounded otherwise ---- */

/* A norm to be folded, a softmax and attention to be recognised. */
static int loosely(cn_compile_call *k)
{
  cn_tensor *y = cn_forward(k->payload, k->inputs[0]), *e = cn_exp(y);
  cn_tensor *p = cn_div(e, cn_sum(e, .dim = CN_INTS(1), .keepdim = true)), *q = cn_unsqueeze(p, 0);
  k->outputs[0] = cn_matmul(cn_softmax(cn_matmul(q, cn_transpose(q, 1, 2)), -1), q);
  k->noutputs = 1;
  return cn_err();
}

static int compiled_fast(double *result)
{
  cn_module *net = cn_nn_sequential(cn_nn_linear(3, 4), cn_nn_batch_norm1d(4));
  cn_compiled *c = net ? cn_compile(loosely, .fullgraph = true, .fast = true) : NULL;
  cn_tensor *x = c ? cn_randn(CN_SHAPE(4, 3)) : NULL;
  int saved = cn_no_grad_begin();
  if (x) cn_module_train(net, false);
  for (int i = 0; x && i < 4 && !call(c, net, x, result); i++)
    if (i == 1) cn_mul_(cn_module_get(net, "0.weight"), cn_num(0.5)); /* what was folded is made anew */
  cn_no_grad_end(saved);
  cn_compiled_free(c);
  cn_module_release(net);
  return cn_err();
}

/* ---- what a function says of its results ---- */

static int notes; /* alive */
static void note_free(void *note)
{
  (void)note;
  notes--;
}

static int noted(cn_compile_call *k)
{
  notes++;
  k->note = &notes;
  k->outputs[0] = cn_mul(k->inputs[0], cn_num(cn_item(k->inputs[1]))); /* reads a number: captured a second time */
  k->noutputs = 1;
  return cn_err();
}

/* A note is the program's; one of a capture that came to nothing is given back there. */
static int notes_of_programs(double *result)
{
  cn_compiled *c = cn_compile(noted, .fullgraph = true, .note_free = note_free);
  cn_tensor *in[2] = {c ? cn_ones(CN_SHAPE(3)) : NULL, c ? cn_num(2) : NULL}, *out = NULL;
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &out, .noutputs = 1};
  if (!cn_err() && !cn_compiled_call(c, &k)) *result = sweep_sum(out);
  cn_compiled_free(c);
  return cn_err();
}

/* ---- graphs of modules ---- */

static int forward_fn(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

/* A traced net with any batch, its states named. Owned. */
static cn_graph *traced_net(void)
{
  cn_module *net = cn_nn_sequential(cn_nn_linear(3, 4), cn_nn_gelu(), cn_nn_dropout(.p = 0.5), cn_nn_linear(4, 2));
  cn_tensor *x = net ? cn_ones(CN_SHAPE(2, 3)) : NULL;
  const cn_free_dim batch = {.input = 0, .dim = 0, .symbol = "B"};
  cn_graph *g = x ? cn_trace_dynamic(forward_fn, 1, &x, 1, &batch, 1, net) : NULL;
  if (g && cn_module_name_states(net, g) < 0) {
    cn_graph_free(g);
    g = NULL;
  }
  cn_module_release(net);
  return g;
}

static int run(double *result, cn_graph *g, int64_t rows)
{
  cn_tensor *x = cn_err() ? NULL : cn_randn(CN_SHAPE(rows, 3)), *y = NULL;
  if (!x || cn_graph_run(&y, g, &x)) return cn_err();
  *result += sweep_sum(y);
  return cn_err();
}

static int graph_files(double *result)
{
  cn_graph *g = traced_net();
  if (g && !cn_graph_save(g, path)) run(result, g, 5);
  cn_graph_free(g);
  g = cn_err() ? NULL : cn_graph_load(path);
  if (g) run(result, g, 3);
  cn_graph_free(g);
  remove(path);
  return cn_err();
}

static int graph_modules(double *result)
{
  cn_graph *g = traced_net();
  cn_module *net = g ? cn_graph_module(g) : NULL, *copy = net ? cn_module_copy(net) : NULL;
  cn_optim *optim = copy ? cn_optim_sgd(copy, .lr = 0.1) : NULL;
  if (optim && !cn_backward(cn_sum(cn_square(cn_forward(copy, cn_randn(CN_SHAPE(4, 3))))))) cn_optim_step(optim);
  *result += weights(copy) + weights(net);
  cn_optim_free(optim);
  cn_module_release(copy);
  cn_module_release(net);
  return cn_err();
}

/* A graph inside of another, its ops taken apart; and its types alone. */
static bool every(const cn_op *op, void *payload)
{
  (void)op, (void)payload;
  return true;
}

static int replays(cn_tensor **out, cn_tensor *const *in, void *g)
{
  cn_tensor *first = NULL, *x = cn_requires_grad(cn_detach(in[0]), true);
  if (cn_err() || cn_graph_replay(&first, g, &x, .decompose = every) || cn_backward(cn_sum(cn_square(first))))
    return cn_err();
  out[0] = cn_grad_of(x);
  return cn_err();
}

static int replayed(double *result)
{
  cn_graph *g = traced_net(), *outer = NULL;
  cn_tensor *x = g ? cn_randn(CN_SHAPE(4, 3)) : NULL, *y = NULL;
  cn_graph_value in = {.dtype = CN_F32, .device = CN_CPU, .ndim = 2, .shape = {7, 3}}, type;
  if (x && !replays(&y, &x, g)) *result += sweep_sum(y);
  if (!cn_err() && !cn_graph_infer(&type, g, &in)) *result += (double)type.shape[0];
  for (size_t i = 0; !cn_err() && i < cn_graph_states(g); i++) cn_zero_grad(cn_graph_state(g, i));
  if (!cn_err() && (outer = cn_trace(replays, 1, &x, 1, g)) && !cn_graph_run(&y, outer, &x)) *result += sweep_sum(y);
  cn_graph_free(outer);
  cn_graph_free(g);
  return cn_err();
}

int main(void)
{
  static const cn_rewrite wrong[] = {{"wrong", "asinh(x)", NULL, "sinh(x)", true}};
  const struct CMUnitTest tests[] = {
      SWEEP(compiled_steps),     SWEEP(compiled_steps_on_a_device), SWEEP(checked_steps), SWEEP(found_differences),
      SWEEP(compiled_gradients), SWEEP(graph_files),                SWEEP(graph_modules), SWEEP(replayed),
      SWEEP(compiled_fast),      SWEEP_BALANCED(notes_of_programs, notes),
  };
  if (cn_rewrite_register(wrong, 1)) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
