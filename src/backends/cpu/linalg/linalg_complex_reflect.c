/* linalg_complex_reflect.c: kernels of products of complex reflections: made (geqrf), multiplied out
 * (linalg_householder_product).
 *
 * Flow: as in linalg_complex.c, whose reflections they are; ormqr is made of the product. Invariant: the factor of a
 * reflection that does nothing is 0. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "complex.h"

static int64_t least(const cni_matjob *j) { return j->m < j->n ? j->m : j->n; }
static cni_c *numbers(char *memory) { return (cni_c *)(void *)memory; }

/* A vector of the job's memory. */
static cni_mat column(const cni_matjob *j, char *memory) { return (cni_mat){memory, 1, 1, j->dtype}; }

/* ---- geqrf(input) -> (a, tau) ---- */

static int64_t geqrf_element(const cni_matjob *j, int64_t index, char *room)
{
  char *tau = room + cni_mat_room(j, j->m * j->n);
  cni_mat mine = cni_mat_own(j, room, j->m, j->n);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  cni_c_householder(numbers(room), j->m, j->n, numbers(tau));
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, j->m, j->n);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[1]), 1, index), column(j, tau), least(j), 1);
  return 0;
}

static int geqrf_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 2);
  j.room = cni_mat_room(&j, j.m * j.n) + cni_mat_room(&j, least(&j));
  j.element = geqrf_element;
  return cni_matjob_run(&j, 8 * (double)j.m * (double)j.n * (double)least(&j), false, "", "");
}

/* ---- linalg_householder_product(input, tau) ---- */

static int64_t product_element(const cni_matjob *j, int64_t index, char *room)
{
  const cn_desc *given = cn_desc_of(j->c->in[1]);
  char *tau = room + cni_mat_room(j, j->m * j->n), *q = tau + cni_mat_room(j, least(j));
  cni_mat_move(cni_mat_own(j, room, j->m, j->n), cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  memset(tau, 0, cni_mat_bytes(j, least(j)));
  cni_mat_move(column(j, tau), cni_mat_at(j, given, 1, index), given->shape[given->ndim - 1], 1);
  cni_c_householder_q(numbers(room), j->m, j->n, numbers(tau), numbers(q), j->n);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), cni_mat_own(j, q, j->m, j->n), j->m, j->n);
  return 0;
}

static int product_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 2);
  j.room = 2 * cni_mat_room(&j, j.m * j.n) + cni_mat_room(&j, least(&j));
  j.element = product_element;
  return cni_matjob_run(&j, 8 * (double)j.m * (double)j.n * (double)least(&j), false, "", "");
}

const cn_kernel cni_cpu_linalg_complex_reflect_kernels[] = {
    {"geqrf", "complex", geqrf_kernel, cni_can_complex},
    {"linalg_householder_product", "complex", product_kernel, cni_can_complex},
    {NULL, NULL, NULL},
};
