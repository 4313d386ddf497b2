/* runs.h: a small training run with everything that a checkpoint must hold: shuffled batches, augmentation, dropout,
 * batch norm, Adam, a schedule that steps with each batch. */
#ifndef TESTS_TRAIN_RUNS_H
#define TESTS_TRAIN_RUNS_H

#include <cairn/cairn.h>
#include <cairn/data.h>
#include <cairn/optimisers.h>
#include <cairn/schedules.h>
#include <cairn/train.h>

typedef struct small_run {
  cn_module *net;
  cn_optim *opt;
  cn_schedule *schedule;
  cn_loader *loader;
} small_run;

/* The same whenever it is called: it sets the seed. */
int small_run_begin(small_run *run);
void small_run_end(small_run *run);
/* A net for digits: convolution, batch norm, dropout. Owned. */
cn_module *small_net(void);
/* `n` digits from the first of a part on; augmented ones are shifted and noisy. */
cn_dataset *some_digits(cn_part part, int64_t n, bool augmented);
/* A sum that depends on every bit of the net's parameters and buffers. */
uint64_t net_sum(cn_module *net);
/* A path in a temporary folder, which is made; static storage. */
const char *temporary(const char *name);
void remove_temporary(void);

/* The call returns 0; what went wrong otherwise. For files that include test.h. */
#define CHECK(call) \
  do { \
    int status_ = (call); \
    if (status_ < 0) print_error("%s\n", cn_err_message()); \
    assert_int_equal(status_, 0); \
  } while (0)

#endif
