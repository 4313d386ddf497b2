/* captured.c: the two-layer network with its whole training step recorded once as a graph and run again from
 * there.
 *
 * Tracing calls the step like any function, but moves no data: forward, backward and the updates in place
 * all become nodes. The parameters and velocities are the graph's state: running it changes those very
 * tensors. Its losses are those of the same step run directly, bit for bit.
 *
 *     cc captured.c $(pkg-config --cflags --libs cairn) && ./a.out
 */
#include "problem.h"

/* inputs: x, y; outputs: the loss. Also updates the parameters of `payload`. */
static int train_step(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  const problem *q = payload;
  cn_tensor *h = cn_sigmoid(cn_add(cn_matmul(inputs[0], q->p[W1]), q->p[B1]));
  cn_tensor *said = cn_add(cn_matmul(h, q->p[W2]), q->p[B2]);
  cn_tensor *loss = cn_mean(cn_square(cn_sub(said, inputs[1])));
  if (cn_backward(loss)) return cn_err();
  int saved = cn_no_grad_begin();
  for (int i = 0; i < PARAMS; i++) {
    cn_add_(cn_mul_(q->v[i], cn_num(MOMENTUM)), cn_grad_of(q->p[i]));
    cn_sub_(q->p[i], q->v[i], .alpha = RATE);
    cn_zero_grad(q->p[i]);
  }
  cn_no_grad_end(saved);
  outputs[0] = loss;
  return cn_err();
}

/* One step on each copy of the problem, by the graph and directly; returns the graph's loss. */
static double both(cn_graph *graph, const problem *traced, problem *direct, int *differ)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *loss = NULL, *other = NULL;
  cn_graph_run(&loss, graph, (cn_tensor *const[]){traced->x, traced->y});
  train_step(&other, (cn_tensor *const[]){direct->x, direct->y}, direct);
  double value = cn_item(loss);
  *differ += value < cn_item(other) || value > cn_item(other);
  cn_scope_end(s);
  return value;
}

int main(void)
{
  problem traced, direct;
  double last = 0;
  int differ = 0;
  cn_scope *all = cn_scope_begin();
  problem_init(&traced);
  problem_init(&direct);
  for (int i = 0; i < PARAMS; i++) {
    cn_requires_grad(traced.p[i], true);
    cn_requires_grad(direct.p[i], true);
  }

  cn_graph *graph = cn_trace(train_step, 1, (cn_tensor *const[]){traced.x, traced.y}, 2, &traced);
  printf("%zu nodes, %zu states\n", cn_graph_nodes(graph), cn_graph_states(graph));
  for (int step = 0; step < STEPS && !cn_err(); step++) {
    last = both(graph, &traced, &direct, &differ);
    problem_report(step, last);
  }
  printf("%d of %d losses differ from the direct run\n", differ, STEPS);
  cn_graph_free(graph);
  cn_scope_end(all);
  return problem_status(last) || differ;
}
