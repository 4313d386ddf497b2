/* sensors.c: NVML, as far as cairn.cuda asks it for readings (cuda/readings.py), and the driver's switch for profilers.
 *
 * Place in the flow: a part of the emulated driver's library, beside simt.c. Invariant: readings never change. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "simt_driver.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) { return 0; }
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *place, void **device);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *place, void **device)
{
  static const char devices[100];
  *device = (void *)(devices + atoi(place + 5)); /* its bus */
  return strncmp(place, "0000:", 5) || strcmp(place + 7, ":00.0") ? 6 : 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned *percent);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned *percent)
{
  (void)device;
  percent[0] = 73, percent[1] = 21;
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *bytes);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *bytes)
{
  (void)device;
  bytes[0] = simt_counts.memory, bytes[1] = simt_counts.memory - simt_counts.held, bytes[2] = simt_counts.held;
  return 0;
}
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees);
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees)
{
  (void)device;
  *degrees = 41;
  return sensor;
}
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
  (void)device;
  *milliwatts = 98765;
  return 0;
}
EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
  (void)device;
  *mhz = 1980;
  return clock != 1;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *found);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *found)
{
  const struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned instance, compute;
  } one = {4321, 3 << 20, 0, 0};
  (void)device;
  memcpy(found, &one, sizeof one);
  *count = 1;
  return 0;
}

EXPORT CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
EXPORT CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }
