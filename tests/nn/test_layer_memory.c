/* test_layer_memory.c: every layer with every allocation failing in turn: the cases of the golden files, made, printed,
 * copied and called. Each failure is an error of memory that leaves nothing behind. */
#include <stdio.h>

#include "layer.h"
#include "test.h"

enum { SETTLE = 8, MOST = 100000 };

/* Makes the module and uses it. The sum of its results, so that runs can be compared; 0 after an error. */
static double use(layer *l)
{
  cn_tensor *out[LAYER_RESULTS] = {NULL};
  double sum = 0;
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_module *m = s ? layer_make(l) : NULL;
  char *text = cn_module_to_string(m);
  cn_string_free(text);
  l->module = m ? cn_module_copy(m) : NULL;
  if (l->module && !cn_err()) layer_call(l, out, "train");
  for (size_t k = 0; k < LAYER_RESULTS; k++)
    if (out[k] && !cn_err()) sum += cn_item(cn_nansum(cn_cast(cn_detach(out[k]), CN_F64)));
  cn_module_release(l->module);
  cn_module_release(m);
  cn_scope_end(s);
  return cn_err() ? 0 : sum;
}

/* In a state of its own, so that its scopes' arrays are made anew too. Returns the error, and clears it. */
static int use_afresh(layer *l, double *sum, size_t *in_use, uint64_t fail_at)
{
  cn_memory_stats stats;
  cn_state *fresh = cn_state_new(), *old = cn_state_swap(fresh);
  cn_memory_fail_at(fail_at);
  *sum = use(l);
  cn_memory_fail_at(0);
  int error = cn_err();
  cn_err_clear();
  cn_state_swap(old);
  cn_state_free(fresh);
  cn_memory_get_stats(&stats);
  *in_use = stats.in_use;
  return error;
}

static uint64_t allocations(void)
{
  cn_memory_stats stats;
  cn_memory_get_stats(&stats);
  return stats.allocations;
}

static void sweep(layer *l)
{
  double want, sum;
  size_t base = 0, now = 1;
  for (int i = 0; i < SETTLE && now != base; i++) { /* what is made once is made */
    base = now;
    if (use_afresh(l, &want, &now, 0)) {
      layer_differs(l, "fails by itself");
      return;
    }
  }
  if (now != base) layer_differs(l, "leaks: %zu bytes, then %zu", base, now);
  for (uint64_t k = 1; k < MOST && !l->failures; k++) {
    uint64_t before = allocations();
    int error = use_afresh(l, &sum, &now, k);
    if (error && error != CN_ERR_MEMORY) layer_differs(l, "allocation %d failed: error %d", (int)k, error);
    if (!error && memcmp(&sum, &want, sizeof sum))
      layer_differs(l, "allocation %d failed: %g, not %g", (int)k, sum, want);
    if (now != base) layer_differs(l, "allocation %d failed: %zu bytes in use, not %zu", (int)k, now, base);
    if (!error && allocations() - before < k) return; /* it was over before */
  }
}

static void survives(void **state)
{
  cn_tree *file, *cases = layer_open(*state, &file);
  const char *only = getenv("CAIRN_TEST_CASE"); /* cases whose label has this text */
  int failed = 0;
  cn_memory_set_caching(false);
  for (size_t i = 0; i < cn_tree_size(cases); i++) {
    layer l = {.file = file, .json = cn_tree_at(cases, i), .number = i};
    if (cn_tree_get(l.json, "error") || (only && !strstr(layer_label(&l), only))) continue;
    sweep(&l);
    failed += l.failures != 0;
  }
  cn_memory_set_caching(true);
  cn_tree_free(cases);
  cn_tree_free(file);
  if (failed) fail_msg("%d cases of %s do not survive", failed, (const char *)*state);
}

int main(void) { return layer_main("layers without memory", survives, NULL); }
