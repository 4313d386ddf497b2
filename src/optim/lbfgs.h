/* lbfgs.h: what LBFGS and its line search share. */
#ifndef CNI_OPTIM_LBFGS_H
#define CNI_OPTIM_LBFGS_H

#include "optim.h"

/* A point on the line: how far, the loss there, its gradient and the slope along the line. */
typedef struct cni_point {
  double t, loss, slope;
  cn_tensor *grad; /* flat; owned */
} cni_point;

/* The line through the present parameters along d. */
typedef struct cni_line {
  cn_optim *opt;
  cn_closure fn;
  void *payload;
  cn_tensor *d;         /* flat; borrowed */
  cn_tensor **start;    /* copies of the parameters */
  bool maximize;
} cni_line;

/* The loss as a number, and the gradients that its backward left, flat; *grad owned. 0 or an error. */
int cni_take_gradient(cn_optim *opt, cn_tensor *value, bool maximize, double *loss, cn_tensor **grad);
/* Runs the closure; *grad (owned) gets the gradients of all parameters, flat. 0 or an error. */
int cni_evaluate(cn_optim *opt, cn_closure fn, void *payload, bool maximize, double *loss, cn_tensor **grad);
int cni_move(cn_optim *opt, double t, cn_tensor *d); /* all parameters by t d */
/* Loss, gradient and slope at p->t, from the start and back. */
int cni_line_try(const cni_line *line, cni_point *p);
/* A point that satisfies the strong Wolfe conditions, by at most `most` evaluations, which are counted in *evals. best:
 * t to begin with in, the point found out (its grad replaced). from: where the line begins. */
int cni_strong_wolfe(const cni_line *line, cni_point *best, const cni_point *from, double tolerance, int64_t most,
                     int64_t *evals);

/* Makes *slot own one more reference to value (NULL: a failed op; the error stays), and drop what it had. */
static inline int cni_own(cn_tensor **slot, cn_tensor *value)
{
  cn_tensor *old = *slot;
  *slot = cn_keep(value);
  cn_release(old);
  return value ? CN_OK : cn_err();
}

#endif
