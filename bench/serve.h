/* serve.h: what every benchmark program, cairn's and the peers', has in common: the dialogue with
 * bench/run, the clock and the data.
 *
 * A program lists its works in a table and hands it to bench_serve. bench/run then asks for one round
 * at a time over standard input, taking turns between the sides, so that start-up costs nothing and a
 * slow minute of the machine hits all sides alike. Invariant: both sides of a work get the same
 * numbers from bench_fill and do the same arithmetic; `check` shows it.
 *
 * C11 and C++17. Include it first: it asks the system headers for POSIX.
 */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#if !defined(_GNU_SOURCE) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench_work {
  const char *name;
  const char *variant; /* one of several ways to do it on this side; "" when there is one */
  const char *unit;    /* of `amount`: "call", "step", "flop", "byte" */
  double amount;       /* what one call does */
  int (*setup)(void);  /* makes a fresh state, the same every time; 0 done */
  void (*run)(long n); /* n calls; the loop lies inside, so that no call through a pointer is timed */
  double (*check)(void); /* right after setup: a number on which all sides agree to 1e-3 */
};

/* The place in the table of the work that is asked for: set before setup, run and check, for programs whose works
 * share their functions. */
static size_t bench_index;

static inline double bench_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Fills with numbers evenly spread over (-scale, scale), the same for the same seed everywhere. */
static inline void bench_fill(float *out, size_t n, uint64_t seed, float scale)
{
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < n; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    out[i] = scale * ((float)(int32_t)(x >> 32) / 2147483648.0f);
  }
}

/* The label of sample i, in [0, classes). */
static inline int64_t bench_label(int64_t i, int64_t classes)
{
  return (i * 7 + 3) % classes;
}

/* The thread count that bench/run gives every program as its first argument. */
static inline int bench_threads(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 1;
  return n > 0 ? n : 1;
}

/* Ends the program when a work failed: rounds that did nothing must not look fast. */
static inline void bench_require(int fine, const char *message)
{
  if (fine) return;
  fprintf(stderr, "%s\n", message);
  exit(1);
}

static inline double bench_time(const struct bench_work *w, long n)
{
  double start = bench_now();
  w->run(n);
  return bench_now() - start;
}

/* Warms up for at least `seconds`; returns how many calls last about that long. */
static inline long bench_calibrate(const struct bench_work *w, double seconds)
{
  double begin = bench_now(), took = bench_time(w, 1);
  long n = 1;
  while (took < 0.7 * seconds || bench_now() - begin < seconds) {
    double factor = took > 0 ? seconds / took : 10;
    if (factor > 10) factor = 10;
    n = (long)((double)n * factor + 0.999); /* up, or a call of half the time would never become two */
    took = bench_time(w, n);
  }
  return n;
}

/* The work of that name, whose place bench_index then is; NULL when there is none. */
static inline const struct bench_work *bench_find(const struct bench_work *works, size_t count,
                                                  const char *name, const char *variant)
{
  for (bench_index = 0; bench_index < count; bench_index++)
    if (!strcmp(works[bench_index].name, name) && !strcmp(works[bench_index].variant, variant))
      return &works[bench_index];
  return NULL;
}

static inline void bench_list(const struct bench_work *works, size_t count)
{
  printf("{\"works\": [");
  for (size_t i = 0; i < count; i++)
    printf("%s{\"name\": \"%s\", \"variant\": \"%s\", \"unit\": \"%s\", \"amount\": %.17g}", i ? ", " : "",
           works[i].name, works[i].variant, works[i].unit, works[i].amount);
  printf("]}\n");
}

/* Answers one request with one JSON line: list | setup | check | warm SECONDS | round CALLS, all but the first
 * about the work NAME:VARIANT. */
static inline void bench_answer(const struct bench_work *works, size_t count, char *line)
{
  char verb[16] = "", name[64] = "";
  double number = 0;
  int fields = sscanf(line, "%15s %63s %lf", verb, name, &number);
  if (!strcmp(verb, "list")) {
    bench_list(works, count);
    return;
  }
  char *colon = strchr(name, ':');
  if (colon) *colon = '\0';
  const struct bench_work *w = bench_find(works, count, name, colon ? colon + 1 : "");
  if (!w) {
    printf("{\"error\": \"no such work\"}\n");
  } else if (!strcmp(verb, "setup") || !strcmp(verb, "check")) {
    if (w->setup())
      printf("{\"error\": \"setup failed\"}\n");
    else
      printf("{\"value\": %.9g}\n", *verb == 'c' ? w->check() : 0.0);
  } else if (!strcmp(verb, "warm") && fields == 3) {
    printf("{\"calls\": %ld}\n", bench_calibrate(w, number));
  } else if (!strcmp(verb, "round") && fields == 3 && number >= 1) {
    double seconds = bench_time(w, (long)number);
    printf("{\"seconds\": %.9g}\n", seconds / (double)(long)number);
  } else {
    printf("{\"error\": \"not understood\"}\n");
  }
}

/* The rest of main. `PROGRAM THREADS` serves until standard input ends; `PROGRAM THREADS NAME:VARIANT`
 * does one call at once and prints the monotonic clock at its end, for measuring start-up. */
static inline int bench_serve(int argc, char **argv, const struct bench_work *works, size_t count)
{
  char line[256];
  if (argc > 2) {
    char *colon = strchr(argv[2], ':');
    if (colon) *colon = '\0';
    const struct bench_work *w = bench_find(works, count, argv[2], colon ? colon + 1 : "");
    if (!w || w->setup()) return 1;
    w->run(1);
    printf("{\"clock\": %.9f}\n", bench_now());
    return 0;
  }
  while (fgets(line, sizeof line, stdin)) {
    bench_answer(works, count, line);
    fflush(stdout);
  }
  return 0;
}

#endif
