/* test_dnn_graphs.c: cuDNN takes every graph that attention is described by, and the convolutions of the zoo's networks
 * with what is joined to them, and their gradients: graphs and engines are made for a device that is described
 * (h200.json, as cuDNN itself writes it), so no GPU is needed. Needs cuDNN and a driver or its stub; skipped, with the
 * reason, where they are not.
 *
 * What is asserted is that an engine is known for each form, both ways: a form without one would go by parts, slowly
 * and unseen. */
#include "test.h"

#ifndef CNI_HAVE_CUDNN_H
static void attention_forms(void **state)
{
  (void)state;
  SKIP_TEST("no cuDNN");
}
static void convolutions_of_networks(void **state)
{
  (void)state;
  SKIP_TEST("no cuDNN");
}
#else
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/kw.h>
#include <cairn/zoo.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/attention.h"
#include "backends/cuda/conv.h"
#include "backends/cuda/conv_graph.h"

#ifdef __SANITIZE_ADDRESS__
/* cuDNN keeps code that it compiled until the process ends, and has unloaded the library that did by then. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

static cni_cuda_dnn_table dnn;
const cni_cuda_dnn_table *cni_cuda_dnn(void) { return &dnn; }

static void *open_in(const char *folder, const char *name)
{
  char path[600];
  snprintf(path, sizeof path, "%.400s/%s", folder ? folder : "/usr/local/cuda", name);
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bool find_libraries(void)
{
  const char *home = getenv("CUDA_HOME");
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *library = dlopen("libcudnn.so.9", RTLD_NOW);
  if (!driver) driver = open_in(home, "lib64/stubs/libcuda.so");
  if (!library) library = open_in(home, "lib64/libcudnn.so.9");
  if (!driver || !library) return false;
#define FIND(f) \
  *(void **)(void *)&dnn.f = dlsym(library, #f); \
  if (!dnn.f) return false;
  CNI_CUDA_DNN(FIND)
  return dnn.cudnnGetVersion() >= 90800; /* the first that reads descriptions */
}

static cudnnBackendDescriptor_t described(const char *file)
{
  char path[1000], text[4096];
  cudnnBackendDescriptor_t device = NULL;
  snprintf(path, sizeof path, "%s/tests/backends/%s", CN_TEST_SOURCE_DIR, file);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  assert_int_equal(dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device), 0);
  assert_int_equal(dnn.cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                                (int64_t)n, text),
                   0);
  assert_int_equal(dnn.cudnnBackendFinalize(device), 0);
  return device;
}

/* Heads outside of the length, or inside of it. */
static void lay_out(int64_t *strides, int64_t heads, int64_t length, int64_t width, bool inside)
{
  strides[0] = heads * length * width;
  strides[1] = inside ? width : length * width;
  strides[2] = inside ? heads * width : width;
  strides[3] = 1;
}

static void complete(cni_attention_form *f, bool inside)
{
  int64_t *queries[] = {f->q, f->gq}, *keys[] = {f->k, f->gk}, *values[] = {f->v, f->gv}, *outputs[] = {f->o, f->go};
  memcpy(f->what, "sdpa", 4);
  f->h = 8;
  f->b = 2;
  for (int i = 0; i < 2; i++) {
    lay_out(queries[i], f->h, f->tq, f->d, inside);
    lay_out(keys[i], f->kh, f->tk, f->d, inside);
    lay_out(values[i], f->kh, f->tk, f->dv, inside);
    lay_out(outputs[i], f->h, f->tq, f->dv, inside);
  }
}

static void mask(cni_attention_form *f, int dtype, bool batches, bool heads, bool rows)
{
  int64_t room = (f->tk + 7) / 8 * 8, of_head = rows ? f->tq * room : room;
  f->mask = dtype;
  f->mb = batches ? f->b : 1;
  f->mh = heads ? f->h : 1;
  const int64_t strides[4] = {f->mh * of_head, of_head, rows ? room : 0, 1};
  memcpy(f->m, strides, sizeof strides);
}

static void check(cudnnBackendDescriptor_t device, cni_attention_form f, const char *what)
{
  cudnnBackendDescriptor_t engines[CNI_DNN_ENGINES];
  for (f.backward = 0; f.backward < 2; f.backward++) {
    cni_dnn_graph g = {.status = CUDNN_STATUS_SUCCESS};
    cni_attention_describe(&g, &f);
    int n = cni_dnn_engines(&g, NULL, device, engines);
    if (n < 1)
      fail_msg("%s, %s, %lld x %lld of %lld: %s", what, f.backward ? "backward" : "forward", (long long)f.tq,
               (long long)f.tk, (long long)f.d, dnn.cudnnGetErrorString(g.status));
    while (n) dnn.cudnnBackendDestroyDescriptor(engines[--n]);
    cni_dnn_drop(&g);
  }
}

static void attention_forms(void **state)
{
  (void)state;
  static const int64_t lengths[][2] = {{1024, 1024}, {77, 131}, {513, 200}};
  if (!find_libraries()) SKIP_TEST("no cuDNN");
  cudnnBackendDescriptor_t device = described("h200.json");
  for (int i = 0; i < 6; i++) {
    cni_attention_form f = {.dtype = i % 2 ? CN_F16 : CN_BF16, .kh = i % 4 < 2 ? 8 : 2, .d = 64, .dv = 64};
    f.tq = lengths[i % 3][0], f.tk = lengths[i % 3][1];
    complete(&f, i % 2);
    check(device, f, "plain");
    f.causal = 1;
    check(device, f, "causal");
    f.drops = 1;
    check(device, f, "causal, with dropout");
    f.fixed = 1;
    check(device, f, "causal, with dropout, in order");
    f.drops = 0;
    check(device, f, "causal, in order");
    f.causal = 0;
    for (int form = 0; form < 8; form++) {
      mask(&f, form % 3 ? CN_BF16 : CN_F32, form & 1, form & 2, form & 4);
      f.fixed = form == i;
      check(device, f, "masked");
      f.drops = 1;
      check(device, f, "masked, with dropout");
      f.drops = 0;
    }
  }
  for (int width = 8; width <= 256; width += width < 128 ? 40 : 64) {
    cni_attention_form f = {.dtype = CN_BF16, .kh = 8, .tq = 300, .tk = 300, .d = width, .dv = width, .causal = 1};
    complete(&f, true);
    check(device, f, "width");
  }
  dnn.cudnnBackendDestroyDescriptor(device);
}

/* ---- convolutions ---- */

enum { MOST_FORMS = 400 };
typedef struct forms {
  cni_conv_form v[MOST_FORMS];
  int n;
} forms;

static void shape_of(int64_t *shape, const cn_graph *g, int value)
{
  cn_value_info info = {.size = sizeof info};
  assert_int_equal(cn_graph_value_at(&info, g, value), 0);
  assert_int_equal(info.ndim, 4);
  memcpy(shape, info.shape, 4 * sizeof *shape);
}

static void pair_of(int64_t *pair, const cn_value *v)
{
  for (int i = 0; i < 2; i++) pair[i] = v->tag == CN_V_INT ? v->u.i : v->u.is[v->n > 1 ? i : 0];
}

/* A node conv2d of a traced network, where no form is like it yet. */
static void add_form(forms *all, const cn_graph *g, const cn_graph_node *n)
{
  cni_conv_form f;
  memset(&f, 0, sizeof f);
  memcpy(f.what, "conv2d", sizeof f.what);
  shape_of(f.x, g, n->in[0]), shape_of(f.w, g, n->in[1]), shape_of(f.y, g, n->out[0]);
  pair_of(f.stride, &n->args[3]), pair_of(f.padding, &n->args[4]), pair_of(f.dilation, &n->args[5]);
  f.groups = n->args[6].u.i;
  if (f.w[1] == 1) return; /* filters of one channel have kernels of ours */
  f.as_they_lie = cni_conv_as_they_lie(&f);
  for (int i = 0; i < all->n; i++)
    if (!memcmp(&all->v[i], &f, sizeof f)) return;
  assert_true(all->n < MOST_FORMS);
  all->v[all->n++] = f;
}

static int forward(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_forward(payload, in[0]);
  return cn_err();
}

/* The convolutions of a network on images of this side. On a device without data nothing is computed. */
static void add_network(forms *all, const char *name, int64_t side)
{
  cn_scope *s = cn_scope_begin();
  cn_device meta = cn_device_find("meta");
  cn_module *net = cn_zoo(name, .device = meta);
  cn_module_train(net, false);
  cn_tensor *x = cn_empty(CN_SHAPE(8, 3, side, side), .device = meta);
  int saved = cn_no_grad_begin();
  cn_graph *g = cn_trace(forward, 1, &x, 1, net);
  cn_no_grad_end(saved);
  if (!g) fail_msg("%s: %s", name, cn_err_message());
  for (size_t i = 0; i < cn_graph_nodes(g); i++) {
    cn_graph_node n = {.size = sizeof n};
    assert_int_equal(cn_graph_node_at(&n, g, (int)i), 0);
    if (!strcmp(n.name, "conv2d")) add_form(all, g, &n);
  }
  cn_graph_free(g);
  cn_module_release(net);
  cn_scope_end(s);
}

static void check_conv(cudnnBackendDescriptor_t device, const cni_conv_form *f, const char *what)
{
  cudnnBackendDescriptor_t engines[CNI_DNN_ENGINES];
  cni_dnn_graph g = {.status = CUDNN_STATUS_SUCCESS};
  cni_conv_describe(&g, f);
  int n = cni_dnn_engines(&g, NULL, device, engines);
  if (n < 1)
    fail_msg("%s, type %d: %lldx%lldx%lldx%lld by %lldx%lldx%lldx%lld: %s", what, f->dtype, (long long)f->x[0],
             (long long)f->x[1], (long long)f->x[2], (long long)f->x[3], (long long)f->w[0], (long long)f->w[1],
             (long long)f->w[2], (long long)f->w[3], dnn.cudnnGetErrorString(g.status));
  while (n) dnn.cudnnBackendDestroyDescriptor(engines[--n]);
  cni_dnn_drop(&g);
}

static void convolutions_of_networks(void **state)
{
  (void)state;
  static const char *const names[] = {"resnet18", "resnext50_32x4d", "googlenet", "densenet121", "squeezenet1_0",
                                      "mobilenet_v2", "efficientnet_b0", "convnext_tiny"};
  static const int types[] = {CN_BF16, CN_F16, CN_F32};
  if (!find_libraries()) SKIP_TEST("no cuDNN");
  cudnnBackendDescriptor_t device = described("h200.json");
  forms *all = calloc(1, sizeof *all);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_network(all, names[i], 224);
  assert_true(all->n > 100);
  for (int i = 0; i < all->n; i++) { /* each network has each type */
    cni_conv_form f = all->v[i];
    f.dtype = types[i % 3];
    f.strict = f.dtype == CN_F32;
    static const char *const kinds[] = {"forward", "input's gradient", "filter's gradient"};
    for (f.kind = CNI_CUDA_CONV_FORWARD; f.kind <= CNI_CUDA_CONV_WEIGHT; f.kind++)
      check_conv(device, &f, kinds[f.kind]);
    f.kind = CNI_CUDA_CONV_FORWARD;
    f.bias = f.relu = 1;
    check_conv(device, &f, "with bias and relu");
    f.residual = 1;
    check_conv(device, &f, "with bias, residual and relu");
    f.repeats = 1;
    check_conv(device, &f, "with bias, residual and relu, in order");
  }
  free(all);
  dnn.cudnnBackendDestroyDescriptor(device);
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_forms), cmocka_unit_test(convolutions_of_networks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
