/* registry.h: the backends in use.
 *
 * Place in the flow: init.c registers compiled-in backends; device.h's functions load plugins at first need.
 * Invariant: a device number is (backend index + 1) << 8 | device index, so CN_CPU is backend 0. */
#ifndef CNI_COMMON_REGISTRY_H
#define CNI_COMMON_REGISTRY_H

#include <cairn/device.h>
#include <cairn/ext/host.h>

#include "ops/table.h"

int cni_registry_init(void); /* fills cni_run_kernel */
void cni_registry_exit(void);
int cni_backend_add(
    const cn_backend *backend); /* cn_backend_register for init.c itself, which cannot wait for init */
const cn_backend *cni_backend_of(cn_device device); /* NULL with the error set when there is none */
static inline int cni_device_index(cn_device device) { return device & 0xff; }

const cn_backend *cni_backend_at(int i); /* NULL past the last */
void cni_plugins_load(void);             /* the library's own backends that are plugins, where they are there */

extern const cn_host cni_host; /* host.c */
int cni_waiting(void); /* cn_host.waiting (memory.c) */

#endif
