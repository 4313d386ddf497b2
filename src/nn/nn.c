/* nn.c: see nn.h. */
#include "nn.h"

cn_tensor *cni_new_empty(const cn_value *place, const int64_t *shape, size_t ndim)
{
  cn_device device = place[0].tag == CN_V_INT ? (cn_device)place[0].u.i : CN_DEVICE_DEFAULT;
  cn_dtype dtype = place[1].tag == CN_V_INT ? (cn_dtype)place[1].u.i : CN_DTYPE_NONE;
  return cn_empty(shape, ndim, .device = device, .dtype = dtype);
}

int cni_add_uniform(cn_module *m, const char *name, const cn_value *place, const int64_t *shape, size_t ndim,
                    double bound)
{
  cn_tensor *t = cni_new_empty(place, shape, ndim);
  /* Bounds of exactly zero (a fan of zero) mean zero, not the options' default. */
  if (t && cn_numel(t)) t = bound > 0 ? cn_uniform_(t, .from = -bound, .to = bound) : cn_fill_(t, cn_num(0));
  return cn_module_add_parameter(m, name, t);
}

int cni_add_constant(cn_module *m, const char *name, const cn_value *place, const int64_t *shape, size_t ndim,
                     double value)
{
  cn_tensor *t = cni_new_empty(place, shape, ndim);
  return cn_module_add_parameter(m, name, t ? cn_fill_(t, cn_num(value)) : NULL);
}

int cni_add_absent(cn_module *m, const char *name) { return cn_module_add_parameter(m, name, NULL); }
