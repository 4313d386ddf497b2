/* test_export.c: graphs as ONNX models: names, open sizes, weights inside and outside of the file, what is written in a
 * run, branches and loops, and what cannot be written. cairn's own importer reads them again. */
#define _DEFAULT_SOURCE
#include <cairn/cairn.h>
#include <cairn/ext/onnx.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/test.h"

static char folder[] = "/tmp/cairn-onnx-XXXXXX";

static const char *path_of(const char *name)
{
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int make_folder(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  static const char *const files[] = {"a.onnx", "b.onnx", "b.onnx.data", "c.onnx"};
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) remove(path_of(files[i]));
  return remove(folder);
}

static bool close_to(cn_tensor *a, cn_tensor *b)
{
  return cn_item(cn_allclose(a, b, .rtol = 1e-5, .atol = 1e-6)) != 0;
}

/* relu(x W' + b), of weights from outside; also counts what it has seen in `seen`. */
typedef struct layer {
  cn_tensor *weight, *bias, *seen;
} layer;

static int forward(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  layer *l = payload;
  outputs[0] = cn_relu(cn_linear(inputs[0], l->weight, l->bias));
  if (l->seen) cn_add_(l->seen, cn_num(1));
  return outputs[0] ? CN_OK : cn_err();
}

static layer small(void) { return (layer){cn_randn(CN_SHAPE(40, 3)), cn_randn(CN_SHAPE(40)), NULL}; }

static cn_graph *graph_of(layer *l, cn_tensor *x, bool open)
{
  const cn_free_dim dims[] = {{0, 0, "rows", 0, 0}};
  cn_graph *g = open ? cn_trace_dynamic(forward, 1, &x, 1, dims, 1, l) : cn_trace(forward, 1, &x, 1, l);
  if (!g) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_graph_name_state(g, 0, "fc.weight"), 0);
  assert_int_equal(cn_graph_name_state(g, 1, "fc.bias"), 0);
  return g;
}

static void agrees(cn_onnx *m, layer *l, cn_tensor *x)
{
  cn_tensor *have, *want;
  if (!m || cn_onnx_run(&have, m, &x)) fail_msg("%s", cn_err_message());
  assert_int_equal(forward(&want, &x, l), 0);
  assert_true(close_to(have, want));
}

static void names_and_sizes(void **state)
{
  static const char *const in[] = {"image"}, *const out[] = {"scores"};
  cn_scope *s = cn_scope_begin();
  layer l = small();
  cn_graph *g = graph_of(&l, cn_randn(CN_SHAPE(5, 3)), true);
  (void)state;
  assert_int_equal(cn_onnx_save(g, path_of("a.onnx"), .inputs = in, .ninputs = 1, .outputs = out, .noutputs = 1), 0);
  cn_onnx *m = cn_onnx_load(path_of("a.onnx"));
  cn_onnx_info info;
  assert_int_equal(cn_onnx_input_at(&info, m, 0), 0);
  assert_string_equal(info.name, "image");
  assert_string_equal(info.symbols[0], "rows");
  assert_int_equal(info.shape[1], 3);
  assert_int_equal(cn_onnx_output_at(&info, m, 0), 0);
  assert_string_equal(info.name, "scores");
  assert_string_equal(info.symbols[0], "rows");
  assert_int_equal(cn_onnx_opset(m, ""), CN_ONNX_OPSET);
  assert_int_equal(cn_onnx_weights(m), 2);
  cn_onnx_weight w;
  assert_int_equal(cn_onnx_weight_at(&w, m, 0), 0);
  assert_string_equal(w.name, "fc.weight");
  agrees(m, &l, cn_randn(CN_SHAPE(7, 3)));
  cn_onnx_free(m);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void opsets(void **state)
{
  cn_scope *s = cn_scope_begin();
  layer l = small();
  cn_graph *g = graph_of(&l, cn_randn(CN_SHAPE(5, 3)), false);
  (void)state;
  for (int opset = CN_ONNX_OPSET_LEAST; opset <= CN_ONNX_OPSET_MOST; opset++) {
    cn_tensor *bytes = cn_onnx_bytes(g, .opset = opset);
    assert_non_null(bytes);
    cn_onnx *m = cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes));
    assert_int_equal(cn_onnx_opset(m, ""), opset);
    agrees(m, &l, cn_randn(CN_SHAPE(5, 3)));
    cn_onnx_free(m);
  }
  assert_null(cn_onnx_bytes(g, .opset = CN_ONNX_OPSET_MOST + 1));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

static void weights_beside_the_model(void **state)
{
  cn_scope *s = cn_scope_begin();
  layer l = {cn_randn(CN_SHAPE(40, 30)), cn_randn(CN_SHAPE(40)), NULL};
  cn_graph *g = graph_of(&l, cn_randn(CN_SHAPE(5, 30)), false);
  (void)state;
  assert_int_equal(cn_onnx_save(g, path_of("b.onnx"), .external = CN_ONNX_EXTERNAL_YES), 0);
  assert_true(cn_file_size(path_of("b.onnx")) < 1000);
  assert_int_equal(cn_file_size(path_of("b.onnx.data")), 40 * 30 * 4);
  cn_onnx *m = cn_onnx_load(path_of("b.onnx"));
  agrees(m, &l, cn_randn(CN_SHAPE(5, 30)));
  cn_onnx_free(m);
  assert_int_equal(cn_onnx_save(g, path_of("c.onnx"), .external = CN_ONNX_EXTERNAL_NO), 0);
  assert_int_equal(cn_path_kind_of(path_of("c.onnx.data")), CN_PATH_NONE);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void weights_as_inputs(void **state)
{
  cn_scope *s = cn_scope_begin();
  layer l = small();
  cn_tensor *x = cn_randn(CN_SHAPE(5, 3)), *have, *want;
  cn_graph *g = graph_of(&l, x, false);
  (void)state;
  cn_tensor *bytes = cn_onnx_bytes(g, .no_weights = true);
  cn_onnx *m = bytes ? cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes)) : NULL;
  assert_non_null(m);
  assert_int_equal(cn_onnx_inputs(m), 3);
  assert_int_equal(cn_onnx_run(&have, m, (cn_tensor *[]){x, l.weight, l.bias}), 0);
  forward(&want, &x, &l);
  assert_true(close_to(have, want));
  cn_onnx_free(m);
  bytes = cn_onnx_bytes(g, .weights_as_inputs = true);
  m = bytes ? cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes)) : NULL;
  assert_int_equal(cn_onnx_inputs(m), 1); /* those that have values need not be given */
  agrees(m, &l, x);
  cn_onnx_free(m);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void what_a_run_writes(void **state)
{
  cn_scope *s = cn_scope_begin();
  layer l = small();
  l.seen = cn_zeros(CN_SCALAR_SHAPE);
  cn_tensor *x = cn_randn(CN_SHAPE(5, 3)), *have[2];
  cn_graph *g = graph_of(&l, x, false);
  (void)state;
  assert_null(cn_onnx_bytes(g));
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "writes"));
  cn_err_clear();
  cn_tensor *bytes = cn_onnx_bytes(g, .writes = true);
  cn_onnx *m = bytes ? cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes)) : NULL;
  assert_int_equal(cn_onnx_outputs(m), 2);
  assert_int_equal(cn_onnx_run(have, m, &x), 0);
  assert_true(cn_item(have[1]) == 1);
  cn_onnx_free(m);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void wrong_names(void **state)
{
  static const char *const twice[] = {"x", "x"}, *const weight[] = {"fc.weight"};
  cn_scope *s = cn_scope_begin();
  layer l = small();
  cn_graph *g = graph_of(&l, cn_randn(CN_SHAPE(5, 3)), false);
  (void)state;
  assert_null(cn_onnx_bytes(g, .inputs = twice, .ninputs = 2));
  cn_err_clear();
  assert_null(cn_onnx_bytes(g, .inputs = twice, .ninputs = 1, .outputs = twice, .noutputs = 1));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  cn_tensor *bytes = cn_onnx_bytes(g, .inputs = weight, .ninputs = 1); /* the weight gets another one */
  cn_onnx *m = bytes ? cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes)) : NULL;
  agrees(m, &l, cn_randn(CN_SHAPE(5, 3)));
  cn_onnx_free(m);
  assert_null(cn_onnx_bytes(NULL));
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- branches and loops ---- */

static int doubled(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_mul(in[0], cn_num(2));
  return out[0] ? CN_OK : cn_err();
}

static int lowered(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_sub(in[0], cn_num(1));
  return out[0] ? CN_OK : cn_err();
}

static int below(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_lt(cn_sum(in[0]), cn_num(50));
  return out[0] ? CN_OK : cn_err();
}

/* The running sum, and each row with it added. */
static int summed(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 2;
  out[0] = cn_add(in[0], cn_sum(in[1]));
  out[1] = cn_add(in[1], out[0]);
  return cn_err();
}

static int controlled(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  size_t n = 1;
  cn_tensor *positive = cn_gt(cn_sum(in[0]), cn_num(0)), *start = cn_zeros(CN_SCALAR_SHAPE);
  cn_tensor *rows = cn_reshape(cn_cat(CN_TENSORS(in[0], in[0])), CN_SHAPE(2, 3));
  int status = cn_cond(&out[0], &n, positive, in, 1, doubled, lowered, NULL);
  if (!status) status = cn_while(&out[1], in, 1, below, doubled, NULL);
  if (!status) status = cn_scan(&out[2], &out[3], &n, &start, 1, &rows, 1, summed, NULL, .reverse = true);
  return status;
}

static void control_flow(void **state)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *have[4], *want[4];
  cn_graph *g = cn_trace(controlled, 4, &x, 1, NULL);
  (void)state;
  if (!g) fail_msg("%s", cn_err_message());
  cn_tensor *bytes = cn_onnx_bytes(g);
  if (!bytes) fail_msg("%s", cn_err_message());
  cn_onnx *m = cn_onnx_load_memory(cn_data(bytes), (size_t)cn_numel(bytes));
  for (int sign = -1; sign < 2; sign += 2) {
    cn_tensor *y = cn_full(CN_SHAPE(3), sign > 0 ? 1.5 : 18);
    assert_int_equal(cn_graph_run(want, g, &y), 0);
    if (!m || cn_onnx_run(have, m, &y)) fail_msg("%s", cn_err_message());
    for (int k = 0; k < 4; k++) assert_true(close_to(have[k], want[k]));
  }
  cn_onnx_free(m);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* Every op of the table is written somehow, or says why not. */
static void every_op_has_a_way(void **state)
{
  static const char *const ways[] = {"row", "formula", "parts", "no"};
  (void)state;
  for (int i = 0; i < cn_op_count(); i++) {
    const char *way = cn_onnx_way(cn_op_at(i)), *why = cn_onnx_problem(cn_op_at(i));
    bool known = false;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) known = known || !strcmp(way, ways[k]);
    assert_true(known);
    assert_true(!strcmp(way, "no") == (why != NULL));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_sizes),
      cmocka_unit_test(opsets),
      cmocka_unit_test(weights_beside_the_model),
      cmocka_unit_test(weights_as_inputs),
      cmocka_unit_test(what_a_run_writes),
      cmocka_unit_test(wrong_names),
      cmocka_unit_test(control_flow),
      cmocka_unit_test(every_op_has_a_way),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
