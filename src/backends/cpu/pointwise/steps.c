/* steps.c: what all interpreters of pointwise programs need: loops, constants, conversions, a typed program over one
 * block.
 *
 * Place in the flow: pointwise.c walks operands, loop/nest_run.c runs nests; both come here for each block. Invariant:
 * y overlaps no operand of a conversion; other steps may write over theirs. */
#include <string.h>

#include "backends/cpu/walk/cast.h"
#include "base/convert.h"
#include "base/maths.h"
#include "base/state.h"
#include "pointwise.h"

cni_pw_loop cni_pw_wide_loop(const cni_pw_table *t, int prim)
{
  return prim == CNI_PW_sin ? t->wide_sin : prim == CNI_PW_cos ? t->wide_cos : prim == CNI_PW_tan ? t->wide_tan : NULL;
}

cni_pw_loop cni_pw_loop_by_size(const cni_pw_table *t, int prim, const double *x, int64_t n)
{
  cni_pw_loop wide = cni_pw_wide_loop(t, prim);
  bool large = false;
  for (int64_t i = 0; wide && i < n; i++) large |= x[i] > CNM_TRIG_MAX || x[i] < -CNM_TRIG_MAX;
  return large ? wide : t->loop[CNI_C_F64][prim];
}

void cni_pw_repeat(void *room, size_t size, int64_t n)
{
  enum { FIRST = 256 }; /* bytes, by stores of our own: short calls of memcpy cost more than they move */
  size_t bytes = (size_t)n * size;
  if (bytes <= FIRST || (size != 4 && size != 8)) {
    for (size_t done = size; done < bytes; done *= 2)
      memcpy((char *)room + done, room, done < bytes - done ? done : bytes - done);
    return;
  }
  typedef uint64_t pair __attribute__((vector_size(16)));
  uint64_t bits = 0;
  memcpy(&bits, room, size);
  if (size == 4) bits |= bits << 32;
  for (size_t done = 0; done < FIRST; done += sizeof(pair))
    memcpy((char *)room + done, &(pair){bits, bits}, sizeof(pair));
  for (size_t done = FIRST; done < bytes; done *= 2) /* the C library copies by the widest vectors there are */
    memcpy((char *)room + done, room, done < bytes - done ? done : bytes - done);
}

void cni_pw_splat(void *room, int compute, double value, int64_t n)
{
  float single = (float)value;
  int64_t whole = compute == CN_F32 || compute == CN_F64 ? 0 : cni_f64_to_i64(value);
  size_t size = compute == CN_F32 ? sizeof single : sizeof value;
  if (n <= 0) return;
  memcpy(room, compute == CN_F32 ? (void *)&single : compute == CN_F64 ? (void *)&value : (void *)&whole, size);
  cni_pw_repeat(room, size, n);
}

void cni_pw_convert(const cni_program *p, const cni_step *s, void *y, const void *x, int64_t n)
{
  int from = cni_compute_dtype((enum cni_compute)p->class[s->arg[0]]);
  int to = cni_compute_dtype((enum cni_compute)s->class);
  char raw[CNI_PW_WIDE * 8] __attribute__((aligned(64)));
  if (s->dtype) {
    cni_cast_find(from, s->dtype)(raw, x, (size_t)n);
    cni_cast_find(s->dtype, to)(y, raw, (size_t)n);
  } else cni_cast_find(from, to)(y, x, (size_t)n);
}

bool cni_pw_has_zero(const int64_t *v, int64_t n)
{
  bool zero = false;
  for (int64_t k = 0; k < n; k++) zero |= v[k] == 0;
  return zero;
}

int cni_pw_division_fault(const cn_call *c, const cni_step *s)
{
  if (s->origin)
    return cni_fail(CN_ERR_VALUE, "%.*s: integer division by zero", (int)strcspn(s->origin, " "), s->origin);
  return cn_call_fail(c, CN_ERR_VALUE, "integer division by zero");
}

int cni_pw_steps(const cni_program *p, const cni_pw_table *t, const cn_call *c, const void **value, char *slots,
                 int64_t n)
{
  int first = p->nin + p->nconst;
  for (int i = 0; i < p->nstep; i++) {
    const cni_step *s = &p->steps[i];
    const void *a = value[s->arg[0]], *b = value[s->arg[1]];
    enum cni_compute class = (enum cni_compute)s->class;
    void *y = slots + (size_t)p->slot[i] * CNI_PW_ROOM;
    value[first + i] = y;
    if (s->prim == CNI_PW_convert) {
      cni_pw_convert(p, s, y, a, n);
      continue;
    }
    if (class >= CNI_C_I64 && cni_prim_divides(s->prim) && cni_pw_has_zero(b, n)) return cni_pw_division_fault(c, s);
    cni_pw_loop_for(t, class, s->prim, a, n)(y, a, b, value[s->arg[2]], n);
  }
  return CN_OK;
}
