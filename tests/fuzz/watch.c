/* watch.c: see watch.h. */
#define _XOPEN_SOURCE 700
#include "watch.h"

#include <cairn/base.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

enum { HANG_SECONDS = 120, MOST_FAILURES = 50 };

watched watch_now = {20240917, 0, "", 0};

/* These are the sanitizers', where they are linked in: their reports then end with the last call, and a signal shows
 * where it came from. */
void __sanitizer_print_stack_trace(void) __attribute__((weak));
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1:allocator_may_return_null=1"; }
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

static void put(const char *s)
{
  if (write(STDERR_FILENO, s, strlen(s)) < 0) return;
}

static void say_last(void)
{
  char line[160];
  snprintf(line, sizeof line, "\nCAIRN_FUZZ_SEED=%llu CAIRN_CALL=%llu: ", (unsigned long long)watch_now.seed,
           (unsigned long long)watch_now.number);
  put(line);
  put(watch_now.text);
  put("\n");
}

static void on_signal(int which)
{
  if (which == SIGALRM) put("\nno end after two minutes\n");
  say_last();
  if (which != SIGABRT && __sanitizer_print_stack_trace) __sanitizer_print_stack_trace();
  signal(which, SIG_DFL);
  raise(which);
}

void watch_begin(const char *text)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  static char stack[1 << 16];
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  const char *seed = getenv("CAIRN_FUZZ_SEED");
  if (seed) watch_now.seed = strtoull(seed, NULL, 10);
  watch_now.text = text;
  sigaltstack(&alternative, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
  watch_tick();
}

void watch_tick(void) { alarm(HANG_SECONDS); }
void watch_end(void) { alarm(0); }

uint64_t watch_count(uint64_t few, uint64_t many)
{
  const char *count = getenv("CAIRN_COUNT");
  return count ? strtoull(count, NULL, 10) : getenv("CAIRN_LONG") ? many : few;
}

bool watch_failed(void)
{
  say_last();
  if (++watch_now.failures > MOST_FAILURES) fail_msg("more than %d failed", MOST_FAILURES);
  return true;
}

size_t watch_in_use(void)
{
  cn_memory_stats m;
  cn_memory_get_stats(&m);
  return m.in_use;
}
