/* sparse.c: a graph as a sparse matrix, and an embedding whose gradient holds only the rows that were used.
 *
 * The first part spreads values over the edges of a small graph, y = A x, and asks for the gradient of the edges'
 * weights. The second trains an embedding with sparse gradients: SparseAdam touches the rows of a batch alone. */
#include <cairn/cairn.h>
#include <stdio.h>

/* A ring of four nodes, with a weight for each edge. */
static int spread(void)
{
  cn_scope *s = cn_scope_begin();
  const int64_t edges[] = {0, 1, 2, 3, 1, 2, 3, 0}; /* from, then to */
  cn_tensor *weights = cn_requires_grad(cn_floats((const float[]){1, 2, 3, 4}, 4), true);
  cn_tensor *graph = cn_sparse_coo_tensor(cn_from_data(edges, CN_SHAPE(2, 4), CN_I64), weights, .size_ = CN_INTS(4, 4));
  cn_tensor *x = cn_reshape(cn_arange(0, 8), CN_SHAPE(4, 2));
  cn_tensor *y = cn_matmul(graph, cn_cast(x, CN_F32));
  cn_print(graph);
  cn_print(y);
  cn_backward(cn_sum(y));
  cn_print(cn_grad_of(weights)); /* of each edge the sum of what lies at its end: 5, 9, 13, 1 */
  cn_tensor *csr = cn_to_sparse_csr(cn_detach(graph), CN_NONE);
  printf("%lld values, rows begin at:\n", (long long)cn_nnz(csr));
  cn_print(cn_crow_indices(csr));
  int status = cn_err() || cn_item(cn_select(cn_grad_of(weights), 0, 2)) != 13;
  cn_scope_end(s);
  return status;
}

static int train(void)
{
  cn_scope *s = cn_scope_begin();
  cn_module *words = cn_nn_embedding(1000, 4, .sparse = true);
  cn_optim *adam = cn_optim_sparse_adam(words, .lr = 0.1);
  const int64_t batch[] = {3, 7, 3};
  cn_tensor *ids = cn_from_data(batch, CN_SHAPE(3), CN_I64), *weight = cn_module_get(words, "weight");
  double first = 0, last = 0;
  for (int step = 0; step < 20; step++) {
    cn_scope *inner = cn_scope_begin();
    cn_tensor *loss = cn_sum(cn_square(cn_forward(words, ids)));
    last = cn_item(loss);
    if (step == 0) first = last;
    cn_optim_zero_grad(adam);
    cn_backward(loss);
    cn_optim_step(adam);
    cn_scope_end(inner);
  }
  cn_tensor *grad = cn_grad_of(weight);
  printf("loss from %.1f to %.1f; the gradient holds %lld of %lld rows\n", first, last, (long long)cn_nnz(grad),
         (long long)cn_size(weight, 0));
  int status = cn_err() || !cn_is_sparse(grad) || cn_nnz(grad) != 3 || last > first / 4;
  cn_optim_free(adam);
  cn_module_release(words);
  cn_scope_end(s);
  return status;
}

int main(void)
{
  cn_seed(0);
  int status = spread();
  if (!status) status = train();
  if (cn_err()) printf("%s\n", cn_err_message());
  return status;
}
