/* test_host.c: every allocation fails once where tensors meet the outside: host memory, borrowed memory, printing,
 * DLPack, devices, and the very start of the library. What was lent is given back exactly once, whatever failed. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/kw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sweep.h"

static float numbers[24];
static int lent; /* borrowed memories not yet given back */
static void give_back(void *payload)
{
  (void)payload;
  lent--;
}

static int host_memory(double *result)
{
  float copy[24];
  cn_tensor *x = cn_from_data(numbers, CN_SHAPE(4, 6), CN_F32);
  lent++;
  cn_tensor *y = cn_from_borrowed(numbers, (const int64_t[]){6, 4}, NULL, 2, CN_F32, give_back, NULL);
  cn_tensor *sum = cn_add(x, cn_transpose(y, 0, 1)), *t = cn_transpose(sum, 0, 1);
  if (!t || cn_to_data(copy, sizeof copy, t) || cn_copy_from_data(sum, copy, sizeof copy)) return cn_err();
  cn_tensor *kept = NULL;
  if (!cn_set(&kept, cn_mul(sum, cn_num(2))))
    *result = sweep_sum(kept) + cn_item(cn_select(cn_select(kept, 0, 1), 0, 2));
  cn_release(kept);
  return cn_err();
}

static int printing(double *result)
{
  const cn_dtype types[] = {CN_F32, CN_F64, CN_BF16, CN_I64, CN_BOOL, CN_F8E4M3};
  cn_tensor *x = cn_transpose(cn_from_data(numbers, CN_SHAPE(4, 6), CN_F32), 0, 1);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char *text = cn_err() ? NULL : cn_to_string(cn_cast(x, types[i]));
    for (const char *s = text; s && *s; s++) *result = *result * 0.5 + *s;
    cn_string_free(text);
  }
  return cn_err();
}

typedef struct managed { /* the head of DLManagedTensor that a consumer needs to give it back */
  char tensor[48];
  void *context;
  void (*deleter)(struct managed *self);
} managed;

static int dlpack(double *result)
{
  cn_tensor *x = cn_from_data(numbers, CN_SHAPE(4, 6), CN_F32);
  managed *out = x ? cn_to_dlpack(cn_slice(x, 1, 1, 4)) : NULL;
  cn_tensor *back = out ? cn_from_dlpack(out) : NULL; /* taken over, also when it fails */
  void *versioned = back ? cn_to_dlpack_versioned(back) : NULL;
  cn_tensor *again = versioned ? cn_from_dlpack_versioned(versioned) : NULL;
  managed *unused = again ? cn_to_dlpack(again) : NULL;
  if (unused) unused->deleter(unused);
  *result = sweep_sum(again);
  return cn_err();
}

static int other_device(double *result)
{
  cn_device device = cn_device_find("mirror");
  cn_tensor *x =
      device ? cn_requires_grad(cn_to_device(cn_from_data(numbers, CN_SHAPE(4, 6), CN_F32), device), true) : NULL;
  cn_tensor *y = x ? cn_gelu(cn_matmul(x, cn_transpose(x, 0, 1))) : NULL;
  if (y && !cn_backward(cn_sum(y))) *result = sweep_sum(cn_to_device(cn_grad_of(x), CN_CPU));
  return cn_err();
}

/* ---- the start: a process for each failure ---- */

/* In a child: allocation k of the first op ever fails. 0: as it should be and there was a failure; 1: as it should be
 * without one; others: wrong. */
static int start_failing(uint64_t k)
{
  cn_memory_stats m;
  cn_memory_fail_at(k);
  cn_tensor *x = cn_add(cn_ones(CN_SHAPE(2)), cn_num(1));
  cn_memory_fail_at(0);
  int first = cn_err();
  cn_memory_get_stats(&m);
  if (x ? first : first != CN_ERR_MEMORY || !cn_err_message()[0]) return 2;
  if (x) return m.allocations < k ? 1 : 0;
  cn_err_clear();
  cn_tensor *y = cn_add(cn_ones(CN_SHAPE(2)), cn_num(1)); /* the next call starts anew */
  return y && cn_item(cn_sum(y)) == 4 ? 0 : 3;
}

static void test_start(void **state)
{
  (void)state;
  uint64_t k = 1, step = getenv("CAIRN_LONG") ? 1 : 37;
  for (int code = 0; code != 1; k += step) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(start_failing(k));
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != 0 && code != 1) fail_msg("start: allocation %d failed: code %d", (int)k, code);
  }
  print_message("start: %d allocations\n", (int)k);
}

int main(void)
{
  for (int i = 0; i < 24; i++) numbers[i] = (float)(i * 7 % 24) / 8;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_start), /* before anything has started the library */
                                     SWEEP_BALANCED(host_memory, lent), SWEEP(printing), SWEEP(dlpack),
                                     SWEEP(other_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
