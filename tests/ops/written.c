/* written.c: tensors in files of cases (written.h). */
#include "written.h"

#include <stdlib.h>

void case_describe(FILE *f, const char *what, cn_tensor *t)
{
  const cn_desc *d = cn_desc_of(t);
  fprintf(f, "%s %s %d", what, cn_dtype_name((cn_dtype)d->dtype), d->ndim);
  for (int k = 0; k < d->ndim; k++) fprintf(f, " %lld", (long long)d->shape[k]);
}

bool case_bytes(FILE *f, cn_tensor *t)
{
  size_t n = cn_tensor_nbytes(t);
  void *bytes = malloc(n + 1);
  bool good = bytes && !cn_to_data(bytes, n, t) && fwrite(bytes, 1, n, f) == n;
  free(bytes);
  return good;
}
