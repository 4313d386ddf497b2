/* loop.c: loops, and rows of what they go over. See rows.h. */
#include <string.h>

#include "rows.h"

/* "(%1, %2)" or "%1: tensor<..>, ..." of all that a loop carries. */
static void put_ids(cni_hlo *h, int n, const cni_hval *v)
{
  for (int k = 0; k < n; k++) cn_text_putf(&h->t, "%s%%%d", k ? ", " : "", v[k].id);
}

static void put_types(cni_hlo *h, int n, const cni_hval *v)
{
  for (int k = 0; k < n; k++) {
    if (k) cn_text_put(&h->t, ", ");
    cni_hlo_put_type_of(h, &v[k]);
  }
}

void cni_hlo_block(cni_hlo *h, int n, const cni_hval *like, cni_hval *arguments)
{
  cn_text_put(&h->t, "  ^bb0(");
  for (int k = 0; k < n; k++) {
    arguments[k] = cni_hlo_fresh(h, like[k].dtype, like[k].ndim, like[k].shape);
    cn_text_putf(&h->t, "%s%%%d: ", k ? ", " : "", arguments[k].id);
    cni_hlo_put_type_of(h, &arguments[k]);
  }
  cn_text_put(&h->t, "):\n");
}

void cni_hlo_return(cni_hlo *h, int n, const cni_hval *v)
{
  cn_text_put(&h->t, "  stablehlo.return");
  if (n) cn_text_put(&h->t, " ");
  put_ids(h, n, v);
  if (n) cn_text_put(&h->t, " : ");
  put_types(h, n, v);
  cn_text_put(&h->t, "\n");
}

void cni_hlo_open(cni_hlo *h, const char *op, int nout, cni_hval *out, int nin, const cni_hval *in)
{
  if (h->failed) return;
  for (int k = 0; k < nout; k++) out[k].id = h->next++, out[k].number = false;
  cn_text_put(&h->t, "  ");
  put_ids(h, nout, out);
  cn_text_putf(&h->t, "%s\"stablehlo.%s\"(", nout ? " = " : "", op);
  put_ids(h, nin, in);
  cn_text_put(&h->t, ") ({\n");
}

void cni_hlo_close(cni_hlo *h, const char *attrs, int nout, const cni_hval *out, int nin, const cni_hval *in)
{
  cn_text_putf(&h->t, "  })%s : (", attrs);
  put_types(h, nin, in);
  cn_text_put(&h->t, ") -> (");
  put_types(h, nout, out);
  cn_text_put(&h->t, ")\n");
}

void cni_hlo_while(cni_hlo *h, cni_hgoes goes_on, int n, cni_hval *carried, cni_hbody body, void *payload)
{
  cni_hval out[CNI_HLO_CARRIED + 1], in[CNI_HLO_CARRIED + 1], now[CNI_HLO_CARRIED + 1];
  if (h->failed) return;
  in[0] = cni_hlo_splat(h, cni_hlo_int(0), CN_I32, 0, NULL);
  memcpy(in + 1, carried, (size_t)n * sizeof *in);
  memcpy(out, in, sizeof out);
  cni_hlo_open(h, "while", n + 1, out, n + 1, in);
  cni_hlo_block(h, n + 1, in, now);
  cni_hval go = goes_on(h, now[0], now + 1, payload);
  cni_hlo_return(h, 1, &go);
  cn_text_put(&h->t, "  }, {\n");
  cni_hlo_block(h, n + 1, in, now);
  body(h, now[0], now + 1, payload);
  now[0] = h->failed ? now[0] : cni_hlo_binary(h, "add", now[0], cni_hlo_int(1));
  cni_hlo_return(h, n + 1, now);
  cni_hlo_close(h, "", n + 1, out, n + 1, in);
  memcpy(carried, out + 1, (size_t)n * sizeof *out);
}

typedef struct counting {
  int64_t count;
  cni_hbody body;
  void *payload;
} counting;

static cni_hval below(cni_hlo *h, cni_hval step, const cni_hval *carried, void *payload)
{
  (void)carried;
  return cni_hlo_compare(h, "LT", step, cni_hlo_int(((counting *)payload)->count));
}

static void counted(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  const counting *c = payload;
  c->body(h, step, carried, c->payload);
}

void cni_hlo_loop(cni_hlo *h, int64_t count, int n, cni_hval *carried, cni_hbody body, void *payload)
{
  counting c = {count, body, payload};
  cni_hlo_while(h, below, n, carried, counted, &c);
}

/* x and where its slice i of dim begins, as operands. */
static int slice_operands(cni_hlo *h, cni_hval *in, int ndim, int dim, cni_hval i)
{
  cni_hval zero = cni_hlo_splat(h, cni_hlo_int(0), i.dtype, 0, NULL);
  for (int k = 0; k < ndim; k++) in[k] = k == dim ? i : zero;
  return ndim;
}

cni_hval cni_hlo_at(cni_hlo *h, cni_hval x, int dim, cni_hval i)
{
  cni_hval in[CN_MAX_DIMS + 1] = {x};
  int64_t shape[CN_MAX_DIMS];
  cn_text attrs = {0};
  memcpy(shape, x.shape, sizeof shape);
  shape[dim] = 1;
  int n = 1 + slice_operands(h, in + 1, x.ndim, dim, i);
  cn_text_put(&attrs, "slice_sizes = ");
  cni_hlo_put_array(&attrs, shape, x.ndim);
  cni_hval v = cni_hlo_emit(h, "dynamic_slice", attrs.s, x.dtype, x.ndim, shape, n, in);
  cn_text_free(&attrs);
  return cni_hlo_drop_dim(h, v, dim);
}

cni_hval cni_hlo_set_at(cni_hlo *h, cni_hval x, int dim, cni_hval i, cni_hval row)
{
  cni_hval in[CN_MAX_DIMS + 2] = {x, cni_hlo_insert_dim(h, row, dim, 1)};
  int n = 2 + slice_operands(h, in + 2, x.ndim, dim, i);
  return cni_hlo_emit(h, "dynamic_update_slice", NULL, x.dtype, x.ndim, x.shape, n, in);
}

cni_hval cni_hlo_scan(cni_hlo *h, const char *op, cni_hval neutral, cni_hval x, int dim)
{
  if (!x.ndim || !cni_hlo_numel(&x)) return x;
  for (int64_t step = 1; step < x.shape[dim] && !h->failed; step *= 2) {
    cni_hval before = cni_hlo_slice_dim(h, x, dim, 0, x.shape[dim] - step, 1);
    x = CNI_HLO_EXPR(h, op, x.dtype, cni_hlo_pad_dim(h, before, neutral, dim, step, 0), x);
  }
  return x;
}
