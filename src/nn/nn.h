/* nn.h: what the files of layers share: making parameters, reading arguments, printing.
 *
 * Place in the flow: above module.h's public functions, below every family of classes. */
#ifndef CNI_NN_NN_H
#define CNI_NN_NN_H

#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/kw.h>
#include <cairn/module.h>

/* The arguments of a module, by the number of the parameter in its class's signature. */
static inline const cn_value *cni_args(const cn_module *m) { return cn_args_values(cn_module_args(m)); }

/* Device and type that a layer's parameters are made with: the last two arguments of its signature
 * ("device? device=None, dtype? dtype=None"), passed as a pointer to the first of them. */
cn_tensor *cni_new_empty(const cn_value *place, const int64_t *shape, size_t ndim);
/* Adds a parameter, uniform in +-bound. Returns its slot or a negative status. */
int cni_add_uniform(cn_module *m, const char *name, const cn_value *place, const int64_t *shape, size_t ndim,
                    double bound);
int cni_add_constant(cn_module *m, const char *name, const cn_value *place, const int64_t *shape, size_t ndim,
                     double value);
int cni_add_absent(cn_module *m, const char *name);

/* A number as a field of an options struct, where zero itself is CN_ZERO. */
static inline double cni_option(double v) { return v != 0 ? v : (double)CN_ZERO; }

/* ---- printing (print.c) ---- */
void cni_put_ints(cn_text *t, const int64_t *v, int n); /* "(3, 3)"; CN_NONE as None */
void cni_put_value(cn_text *t, const cn_value *v, const char *type);
void cni_put_arg(cn_text *t, const cn_module *m, int i); /* ", NAME=VALUE" of argument i */
void cni_print_args(const cn_module *m, cn_text *t); /* name=value of what differs from the defaults */

#endif
