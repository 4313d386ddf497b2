/* region_cost.c: what a parallel region costs: `region_cost THREADS WORK GAP` prints the microseconds from the
 * beginning to the end of a region in which each thread has one piece of WORK microseconds, on average, where GAP
 * microseconds lie between regions.
 *
 * Invariant: only the library's own pool is timed; the pieces touch no memory. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void spend(double microseconds)
{
  double end = now() + microseconds;
  while (microseconds > 0 && now() < end) {}
}

static void piece(int64_t begin, int64_t end, void *payload)
{
  for (int64_t i = begin; i < end; i++) spend(*(const double *)payload);
}

int main(int argc, char **argv)
{
  int threads = argc > 1 ? atoi(argv[1]) : 2;
  double work = argc > 2 ? atof(argv[2]) : 0, gap = argc > 3 ? atof(argv[3]) : 0, inside = 0;
  long regions = (long)(500000 / (work + gap + 5)) + 100;
  if (cn_set_num_threads(threads)) return 1;
  for (long i = -20; i < regions; i++) {
    spend(gap);
    double start = now();
    cn_parallel_for(threads, 1, piece, &work);
    if (i >= 0) inside += now() - start;
  }
  printf("%.3f\n", inside / (double)regions);
  return 0;
}
