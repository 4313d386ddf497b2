/* measure.c: what a device really reaches: one large matrix product and one large copy, timed.
 *
 * Place in the flow: above the ops, which it calls like any program; works for every backend that can
 * multiply. Invariant: leaves nothing behind: no tensors, no recorded history, the caller's random numbers
 * where they were. */
#include <cairn/autograd.h>
#include <cairn/device.h>
#include <cairn/kw.h>

#include "base/os.h"

enum { SIDE = 1536, COPY = 1 << 24, ROUNDS = 5 };

static const double patience = 0.4; /* seconds for each of the two: a busy machine has quiet moments */

/* Waits for the device, so that times are those of finished work. */
static double finished(cn_device device)
{
  cn_device_sync(device);
  return cni_os_now();
}

/* a: (side, side). Best of several rounds after one that warms up, in floating-point operations a second. */
static double product_rate(cn_tensor *a, cn_device device)
{
  double best = 0, begin = cni_os_now();
  for (int i = 0; (i <= ROUNDS || cni_os_now() - begin < patience) && !cn_err(); i++) {
    cn_scope *s = cn_scope_begin();
    double start = finished(device);
    cn_matmul(a, a);
    double took = finished(device) - start;
    double flops = 2.0 * (double)cn_size(a, 0) * (double)cn_size(a, 0) * (double)cn_size(a, 0);
    if (i && took > 0 && flops / took > best) best = flops / took;
    cn_scope_end(s);
  }
  return best;
}

/* to, from: (n). Bytes read and written a second. */
static double copy_rate(cn_tensor *to, cn_tensor *from, cn_device device)
{
  double best = 0, begin = cni_os_now();
  for (int i = 0; (i <= ROUNDS || cni_os_now() - begin < patience) && !cn_err(); i++) {
    double start = finished(device);
    cn_copy_(to, from);
    double took = finished(device) - start;
    double bytes = 2.0 * (double)cn_tensor_nbytes(from);
    if (i && took > 0 && bytes / took > best) best = bytes / took;
  }
  return best;
}

/* A GPU needs more work than a CPU to be busy. */
static int64_t side_for(cn_device device) { return device == CN_CPU ? SIDE : 4 * SIDE; }

int cn_device_measure_product(double *gflops, cn_dtype dtype, cn_device device)
{
  *gflops = 0;
  if (cn_err()) return cn_err();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  int saved = cn_no_grad_begin();
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_full(CN_SHAPE(side_for(device), side_for(device)), 0.5, .dtype = dtype, .device = device);
  if (a) *gflops = product_rate(a, device) / 1e9;
  cn_scope_end(s);
  cn_no_grad_end(saved);
  return cn_err();
}

int cn_device_measure(double *gflops, double *gbps, cn_device device)
{
  *gflops = *gbps = 0;
  if (cn_err()) return cn_err();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  if (cn_device_measure_product(gflops, CN_F32, device)) return cn_err();
  int saved = cn_no_grad_begin();
  cn_scope *s = cn_scope_begin();
  int64_t n = device == CN_CPU ? COPY : 8 * (int64_t)COPY;
  cn_tensor *from = cn_full(CN_SHAPE(n), 1.0, .dtype = CN_F32, .device = device);
  *gbps = copy_rate(cn_empty_like(from), from, device) / 1e9;
  cn_scope_end(s);
  cn_no_grad_end(saved);
  return cn_err();
}
