/* watch.h: what random tests share: a process that dies, hangs or finds something wrong says what it was doing.
 *
 * Invariant: what is said is enough to do the same again: CAIRN_FUZZ_SEED and CAIRN_CALL, and the text of the call. */
#ifndef TESTS_FUZZ_WATCH_H
#define TESTS_FUZZ_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct watched {
  uint64_t seed, number; /* of the run, and of what runs now */
  const char *text;      /* what runs now; may be written on while it runs */
  int failures;
} watched;
extern watched watch_now;

/* Catches signals from here on; reads CAIRN_FUZZ_SEED. */
void watch_begin(const char *text);
void watch_tick(void); /* call it now and then: two minutes without are taken for a hang */
void watch_end(void);
/* How many to run: CAIRN_COUNT, or `many` with CAIRN_LONG set, else `few`. */
uint64_t watch_count(uint64_t few, uint64_t many);
/* Reports that something is wrong; always true. Gives up after many reports. */
bool watch_failed(void);

/* A check that does not hold is reported, and the next one follows. */
#define CHECK(condition, ...)                                                                                        \
  ((condition) || (watch_failed() && (print_error(__VA_ARGS__), print_error("\n"), false)))

size_t watch_in_use(void); /* bytes held from the allocator */

#endif
