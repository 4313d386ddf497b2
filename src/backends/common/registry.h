/* registry.h: the backends in use, their kernel tables, and the dispatcher behind apply's cni_run_kernel.
 *
 * Place in the flow: init.c registers compiled-in backends; device.h's functions load plugins at first need.
 * Invariant: a device number is (backend index + 1) << 8 | device index, so CN_CPU is backend 0. */
#ifndef CNI_COMMON_REGISTRY_H
#define CNI_COMMON_REGISTRY_H

#include <cairn/device.h>
#include <cairn/ext/host.h>

#include "ops/table.h"

/* Implementations of one op on one backend, in the order they are tried. */
typedef struct cni_kernel_list {
  int n;
  cn_kernel items[];
} cni_kernel_list;

int cni_registry_init(void); /* fills cni_run_kernel */
void cni_registry_exit(void);
int cni_backend_add(
    const cn_backend *backend); /* cn_backend_register for init.c itself, which cannot wait for init */
const cn_backend *cni_backend_of(cn_device device); /* NULL with the error set when there is none */
static inline int cni_device_index(cn_device device) { return device & 0xff; }

/* Puts these kernels (ends with op NULL) in front of those the backend has already: reference first, overlays after.
 */
int cni_kernels_add(const cn_backend *backend, const cn_kernel *kernels);
/* Implementations of an op on a backend, for listings: falls back to "pointwise" and "*". NULL: none. */
const cni_kernel_list *cni_kernels_of(const cn_backend *backend, const cni_opinfo *info);
const cn_backend *cni_backend_at(int i); /* NULL past the last */

extern const cn_host cni_host; /* host.c */

#endif
