/* tensors.c: making tensors, looking at them, views, broadcasting, errors and memory.
 *
 *     cc tensors.c $(pkg-config --cflags --libs cairn) && ./a.out
 */
#include <cairn/cairn.h>
#include <stdio.h>

/* Prints a name and a tensor; returns it, so that it can stand in an expression. */
static cn_tensor *show(const char *name, cn_tensor *t)
{
  printf("%s = ", name);
  cn_print(t);
  return t;
}

int main(void)
{
  /* What an op returns belongs to the innermost scope, which frees it: nothing below is released by hand. */
  cn_scope *s = cn_scope_begin();

  /* From host memory, by formula, at random. The same seed gives the same numbers on any machine. */
  const float values[] = {1, 2, 3, 4, 5, 6};
  cn_tensor *a = show("a", cn_from_data(values, CN_SHAPE(2, 3), CN_F32));
  cn_tensor *b = show("arange", cn_arange(0, 3, .dtype = CN_I64));
  cn_seed(42);
  show("normal", cn_randn(CN_SHAPE(2, 2)));

  /* Shapes broadcast as in NumPy and types promote as in PyTorch: float32 + int64 is float32. */
  cn_tensor *sum = show("a + b", cn_add(a, b));
  show("a / 2", cn_true_divide(a, cn_num(2)));

  /* Options are given by name, in any order, or not at all. */
  show("row sums", cn_sum(a, .dim = CN_INTS(1), .keepdim = true));
  show("product", cn_matmul(a, cn_transpose(a, 0, 1)));

  /* A view shares memory: writing into the second column of c writes into c. Names that end in _ write in
   * place. */
  cn_tensor *c = cn_clone(a);
  cn_fill_(cn_select(c, 1, 1), cn_num(0));
  show("c", c);

  /* The first error stays, ops do nothing after it, and one check is enough for the whole expression. */
  cn_tensor *wrong = cn_exp(cn_matmul(a, a));
  printf("as expected: %s\n", cn_err_message());
  int failed = wrong != NULL || cn_err() != CN_ERR_SHAPE;
  cn_err_clear();

  failed |= cn_item(cn_sum(sum)) != 27; /* 21 of a, and 0 + 1 + 2 in each of two rows */
  failed |= cn_item(cn_sum(c)) != 14;
  failed |= cn_dtype_of(sum) != CN_F32 || cn_dtype_of(b) != CN_I64;

  /* keep: a reference of our own outlives the scope. */
  cn_tensor *kept = cn_keep(sum);
  cn_scope_end(s);
  failed |= cn_size(kept, -1) != 3;
  cn_release(kept);

  if (cn_err()) printf("%s\n", cn_err_message());
  return failed || cn_err() ? 1 : 0;
}
