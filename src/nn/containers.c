/* containers.c: modules made of modules: Sequential, ModuleList, ModuleDict, Residual, Parallel. */
#include <cairn/nn.h>
#include <string.h>

#include "nn.h"

/* ---- Sequential ---- */

/* A value between two children is dropped as soon as the next one has used it. */
int cn_forward_children(cn_module *m, cn_module_call *call)
{
  cn_tensor *x = cn_keep(call->args[0].u.t);
  for (size_t i = 0; x && i < cn_module_nchildren(m); i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *y = cn_keep(cn_forward(cn_module_child(m, i), x));
    cn_scope_end(s);
    cn_release(x);
    x = y;
  }
  call->out[0] = x ? cn_scope_give(x) : NULL;
  return cn_err();
}

static const cn_module_class sequential = {
  CN_MODULE_CLASS,
  .name = "Sequential",
  .sig = "Sequential() -> Module",
  .doc = "Its children one after the other. They are named by their numbers, or as they were added.",
  .forward = cn_forward_children,
};

/* ---- lists and dictionaries ---- */

static int not_callable(cn_module *m, cn_module_call *call)
{
  (void)call;
  return cn_err_set(CN_ERR_UNSUPPORTED, "%s: holds modules; it cannot be called", m->cls->name);
}

static const cn_module_class module_list = {
  CN_MODULE_CLASS,
  .name = "ModuleList",
  .sig = "ModuleList() -> Module",
  .doc = "Children by number, for a class that calls them itself.",
  .forward = not_callable,
};

static const cn_module_class module_dict = {
  CN_MODULE_CLASS,
  .name = "ModuleDict",
  .sig = "ModuleDict() -> Module",
  .doc = "Children by name, for a class that calls them itself.",
  .forward = not_callable,
};

/* ---- Residual and Parallel ---- */

static cn_tensor *residual_apply(cn_module *m, cn_tensor *x)
{
  cn_tensor *y = x;
  for (size_t i = 0; y && i < cn_module_nchildren(m); i++) y = cn_forward(cn_module_child(m, i), y);
  return cn_add(x, y);
}

static const cn_module_class residual = {
  CN_MODULE_CLASS,
  .name = "Residual",
  .sig = "Residual() -> Module",
  .doc = "Its input plus what its children, one after the other, make of it.",
  .apply = residual_apply,
};

static cn_tensor *parallel_apply(cn_module *m, cn_tensor *x)
{
  enum { MOST = 64 };
  cn_tensor *y[MOST];
  size_t n = cn_module_nchildren(m);
  int64_t dim = cni_args(m)[0].u.i;
  const char *join = cni_args(m)[1].u.s;
  if (!n || n > MOST) {
    cn_err_set(CN_ERR_VALUE, "Parallel: needs 1 to %d children, it has %zu", MOST, n);
    return NULL;
  }
  for (size_t i = 0; i < n; i++)
    if (!(y[i] = cn_forward(cn_module_child(m, i), x))) return NULL;
  if (*join == 'c') return cn_cat(y, n, .dim = dim ? dim : CN_ZERO);
  cn_tensor *sum = y[0];
  for (size_t i = 1; i < n; i++) sum = cn_add(sum, y[i]);
  return sum;
}

static int parallel_init(cn_module *m, const cn_value *a)
{
  (void)m;
  if (!strcmp(a[1].u.s, "cat") || !strcmp(a[1].u.s, "sum")) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Parallel: join is \"cat\" or \"sum\", not \"%s\"", a[1].u.s);
}

static const cn_module_class parallel = {
  CN_MODULE_CLASS,
  .name = "Parallel",
  .sig = "Parallel(int dim=1, str join='cat') -> Module",
  .doc = "All its children on the same input; their results are joined along a dimension, or added.",
  .init = parallel_init,
  .apply = parallel_apply,
};

/* ---- constructors: these take modules, so they are not generated ---- */

static cn_module *filled(cn_module *m, cn_module *const *children, size_t n)
{
  int status = m ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    if (status) cn_module_release(children[i]);
    else status = cn_module_add(m, NULL, children[i]);
  }
  if (!status) return m;
  cn_module_release(m);
  return NULL;
}

cn_module *cn_nn_sequential_of(cn_module *const *children, size_t n)
{
  return filled(cn_module_make_class(&sequential, NULL, 0), children, n);
}

cn_module *cn_nn_module_list_of(cn_module *const *children, size_t n)
{
  return filled(cn_module_make_class(&module_list, NULL, 0), children, n);
}

cn_module *cn_nn_module_dict_of(const char *const *names, cn_module *const *children, size_t n)
{
  cn_module *m = cn_module_make_class(&module_dict, NULL, 0);
  int status = m ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    if (status) cn_module_release(children[i]);
    else status = cn_module_add(m, names[i], children[i]);
  }
  if (!status) return m;
  cn_module_release(m);
  return NULL;
}

cn_module *cn_nn_residual_of(cn_module *const *children, size_t n)
{
  return filled(cn_module_make_class(&residual, NULL, 0), children, n);
}

cn_module *cn_nn_parallel_of(cn_module *const *children, size_t n, int64_t dim, const char *join)
{
  cn_value args[] = {cn_v_int(dim), cn_v_str(join)};
  return filled(cn_module_make_class(&parallel, args, 2), children, n);
}

const cn_module_class *const cni_nn_containers_classes[] = {&sequential, &module_list, &module_dict,
                                                            &residual,   &parallel,    NULL};
