/* devices.c: the devices of the emulated driver: one, or as many as SIMT_DEVICES says, alike but for name and place; of
 * these CUDA_VISIBLE_DEVICES leaves those that it lists, as NVIDIA's driver does.
 *
 * Place in the flow: a part of the emulated driver's library, beside simt.c. Invariant: what is visible is decided when
 * the driver starts; a device's number is its place among those, its name and place on the bus are its own. */
#include <cuda.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt_driver.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST = 16 };

static int there, visible[MOST], nvisible;

/* The device that a word of the list names: its number, or how its UUID begins; -1: none. */
static int named(const char *word, size_t n)
{
  char id[64];
  for (int d = 0; d < there; d++) {
    snprintf(id, sizeof id, "GPU-%08d-5174-0000-0000-000000000000", d);
    if (n > 4 && n < sizeof id && !strncmp(word, id, n)) return d;
  }
  int number = n && isdigit((unsigned char)*word) ? atoi(word) : -1;
  return number < there ? number : -1;
}

static void find_visible(void)
{
  const char *count = getenv("SIMT_DEVICES"), *list = getenv("CUDA_VISIBLE_DEVICES");
  there = count && atoi(count) > 0 && atoi(count) < MOST ? atoi(count) : 1;
  nvisible = 0;
  for (int d = 0; !list && d < there; d++) visible[nvisible++] = d;
  while (list && *list && nvisible < MOST) {
    size_t n = strcspn(list, ",");
    int d = named(list, n);
    if (d < 0) return; /* it hides itself and all behind it */
    visible[nvisible++] = d;
    list += n + (list[n] == ',');
  }
}

EXPORT CUresult cuInit(unsigned flags)
{
  (void)flags;
  simt_show_symbols();
  find_visible();
  return nvisible ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDeviceGetCount(int *n) { *n = nvisible; return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGet(CUdevice *d, int i)
{
  *d = i;
  return i >= 0 && i < nvisible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDeviceGetName(char *name, int n, CUdevice d)
{
  if (there > 1) snprintf(name, (size_t)n, "emulated %d", visible[d]);
  else snprintf(name, (size_t)n, "emulated");
  return CUDA_SUCCESS;
}
int simt_place_of(int device) { return visible[device]; }
/* The bytes of "GPU-DDDDDDDD-5174-...", D the device's own number. */
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice d)
{
  memset(id, 0, sizeof *id);
  id->bytes[3] = (char)(visible[d] / 10 * 16 + visible[d] % 10);
  id->bytes[4] = 0x51;
  id->bytes[5] = 0x74;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char *place, int n, CUdevice d)
{
  snprintf(place, (size_t)n, "0000:%02d:00.0", visible[d]);
  return CUDA_SUCCESS;
}
