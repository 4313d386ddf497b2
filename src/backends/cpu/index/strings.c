/* strings.c: the CPU kernels between strings and numbers: string_format, string_parse.
 *
 * Place in the flow: the family of ops/strings.c. Invariant: what is written reads back as the same number, and nothing
 * depends on the program's locale. */
#include <cairn/ext/system.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

/* Where element i of the row-major order lies, in elements. */
static int64_t place(const cn_desc *d, int64_t i)
{
  int64_t at = 0;
  for (int k = d->ndim; k-- > 0; i /= d->shape[k]) at += i % d->shape[k] * d->strides[k];
  return at;
}

/* ---- writing ---- */

/* As few digits as read back as the same number of this type. */
static void write_real(char *text, double v, int dtype)
{
  if (v != v) {
    memcpy(text, "nan", 4);
    return;
  }
  for (int digits = 3; digits <= 17; digits++) {
    double stored, few;
    uint64_t room;
    snprintf(text, CN_NUMBER_TEXT, "%.*g", digits, v);
    few = strtod(text, NULL);
    cni_store_f64(&room, 0, dtype, few);
    stored = cni_load_f64(&room, 0, dtype);
    if (stored != v && digits < 17) continue;
    cn_number_write(text, few, false);
    return;
  }
}

static int write_number(char *text, const cn_desc *x, int64_t at)
{
  if (x->dtype == CN_BOOL) snprintf(text, CN_NUMBER_TEXT, "%s", cni_load_i64(x->data, at, x->dtype) ? "True" : "False");
  else if (x->dtype == CN_U64) snprintf(text, CN_NUMBER_TEXT, "%" PRIu64, ((const uint64_t *)x->data)[at]);
  else if (cni_dtype_is_int(x->dtype)) snprintf(text, CN_NUMBER_TEXT, "%" PRId64, cni_load_i64(x->data, at, x->dtype));
  else write_real(text, cni_load_f64(x->data, at, x->dtype), x->dtype);
  return (int)strlen(text);
}

static int string_format_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *lengths = cn_desc_of(c->out[1]);
  char text[CN_NUMBER_TEXT];
  int64_t total = 0;
  for (int64_t i = 0; i < x->numel; i++) {
    int n = write_number(text, x, place(x, i));
    cni_store_i64(lengths->data, place(lengths, i), CN_I64, n);
    total += n;
  }
  if (!(c->out[0] = cni_tensor_new(CN_CPU, CN_U8, 1, &total, NULL))) return CN_ERR_MEMORY;
  char *to = cn_desc_of(c->out[0])->data;
  for (int64_t i = 0; i < x->numel; i++) {
    int n = write_number(text, x, place(x, i));
    memcpy(to, text, (size_t)n);
    to += n;
  }
  return CN_OK;
}

/* ---- reading ---- */

static bool read_integer(const char *text, int dtype, void *to, int64_t at)
{
  char *end;
  errno = 0;
  if (dtype == CN_U64) {
    uint64_t v = strtoull(text, &end, 10);
    if (end == text || *end || errno || *text == '-') return false;
    return memcpy((char *)to + (size_t)at * sizeof v, &v, sizeof v), true;
  }
  int64_t v = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  cni_store_i64(to, at, dtype, v);
  return cni_load_i64(to, at, dtype) == v;
}

static bool read_number(const char *text, int dtype, void *to, int64_t at)
{
  const char *end;
  if (dtype == CN_BOOL) {
    bool yes = !strcmp(text, "True") || !strcmp(text, "true") || !strcmp(text, "1");
    cni_store_i64(to, at, dtype, yes);
    return yes || !strcmp(text, "False") || !strcmp(text, "false") || !strcmp(text, "0");
  }
  if (cni_dtype_is_int(dtype)) return read_integer(text, dtype, to, at);
  double v = cn_number_read(text, &end);
  cni_store_f64(to, at, dtype, v);
  return end != text && !*end;
}

static int string_parse_kernel(cn_call *c)
{
  const cn_desc *bytes = cn_desc_of(c->in[0]), *lengths = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  char text[128];
  int64_t at = 0;
  for (int64_t i = 0; i < lengths->numel; i++) {
    int64_t n = cni_load_i64(lengths->data, place(lengths, i), CN_I64);
    if (n < 0 || n > bytes->numel - at) return cn_call_fail(c, CN_ERR_VALUE, "there are fewer bytes than lengths say");
    int64_t kept = n < (int64_t)sizeof text ? n : (int64_t)sizeof text - 1;
    for (int64_t k = 0; k < kept; k++) text[k] = ((const char *)bytes->data)[(at + k) * bytes->strides[0]];
    text[kept] = 0;
    if (kept < n || memchr(text, 0, (size_t)n) || !read_number(text, y->dtype, y->data, place(y, i)))
      return cn_call_fail(c, CN_ERR_VALUE, "'%.60s' is no %s", text, cn_dtype_name((cn_dtype)y->dtype));
    at += n;
  }
  return CN_OK;
}

const cn_kernel cni_cpu_strings_kernels[] = {{"string_format", "reference", string_format_kernel},
                                             {"string_parse", "reference", string_parse_kernel},
                                             {NULL, NULL, NULL}};
