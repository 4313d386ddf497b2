/* simt_driver.h: what the emulation's files show each other, and a test program that finds `simt_counts` with dlsym.
 *
 * Place in the flow: simt.c runs kernels and graphs, simt_memory.c has memory, copies, streams and events. Invariant:
 * counts only go up; what a test sets (memory, late, units, launch_takes) it sets back. */
#ifndef SIMT_DRIVER_H
#define SIMT_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct simt_counts_t {
  size_t memory;            /* bytes that the device has; may be set */
  size_t held;              /* of these */
  uint64_t allocs, frees;   /* of device memory */
  uint64_t host_frees;      /* of pinned memory: on a device it waits for all work, as do frees */
  uint64_t waits;           /* for a stream, an event or all work */
  uint64_t copies_in;       /* from the host, and their bytes */
  uint64_t bytes_in;
  uint64_t copies_out;      /* to the host, and their bytes */
  uint64_t bytes_out;
  bool late;                /* may be set: copies from the host are done when something needs them, or is waited for */
  int units;                /* multiprocessors; may be set before the device is used */
  float launch_takes;       /* may be set: milliseconds of each launch of a kernel, which events see */
  uint64_t clusters[9];     /* launches, by the blocks of a cluster */
} simt_counts_t;
extern simt_counts_t simt_counts;
void simt_show_symbols(void); /* cuInit: kernels, which are libraries of their own, find what simt.c has */
int simt_place_of(int device); /* on the bus */
void simt_temporary(char *name, size_t size); /* a pattern for mkstemp */
extern float simt_clock; /* milliseconds, of simt_memory.c's events */

#endif
