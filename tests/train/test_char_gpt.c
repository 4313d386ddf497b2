/* test_char_gpt.c: the GPT of examples/char_gpt.c: what it computes, and what a run of it is for others to repeat.
 *
 *     test_char_gpt FOLDER [TEXT [STEPS]]
 *
 * writes its start, its batches and the loss of each step into the folder; test_char_gpt_live.py goes the same way with
 * PyTorch. Without TEXT the example's own text and small sizes are used. */
int example_main(int argc, char **argv);
#define main example_main
#include "../../examples/char_gpt.c"
#undef main

#include "test.h"

enum { FIRST_STEPS = 50 };

static settings small(void)
{
  return (settings){.steps = FIRST_STEPS, .layers = 2, .heads = 4, .width = 32, .context = 16, .batch = 8, .seed = 1,
                    .lr = 3e-3};
}

static void no_place_sees_a_later_one(void **state)
{
  (void)state;
  settings o = small();
  cn_scope *s = cn_scope_begin();
  cn_module *net = make_gpt(&o, 10);
  cn_tensor *a = cn_randint(0, 10, CN_SHAPE(2, 16)), *b = cn_clone(a);
  cn_copy_(cn_narrow(b, 1, 9, 7), cn_sub(cn_int(9), cn_narrow(a, 1, 9, 7)));
  cn_tensor *same = cn_eq(cn_forward(net, a), cn_forward(net, b)); /* (2, 16, 10) */
  assert_true(cn_item(cn_all(cn_narrow(same, 1, 0, 9))));
  assert_false(cn_item(cn_all(cn_narrow(same, 1, 9, 7))));
  assert_int_equal(cn_err(), 0);
  cn_module_release(net);
  cn_scope_end(s);
}

static void begins_knowing_nothing(void **state)
{
  (void)state;
  settings o = small();
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  cn_module *net = make_gpt(&o, 10);
  cn_batch b = {.x = cn_randint(0, 10, CN_SHAPE(8, 16)), .y = cn_randint(0, 10, CN_SHAPE(8, 16)), .size = 8};
  assert_true(fabs(cn_item(loss_of(net, &b)) - log(10)) < 0.1);
  cn_module_release(net);
  cn_scope_end(s);
}

static void refuses_too_many_places(void **state)
{
  (void)state;
  settings o = small();
  cn_scope *s = cn_scope_begin();
  cn_module *net = make_gpt(&o, 10);
  assert_null(cn_forward(net, cn_randint(0, 10, CN_SHAPE(1, 17))));
  assert_int_not_equal(cn_err(), 0);
  cn_err_clear();
  cn_module_release(net);
  cn_scope_end(s);
}

/* ---- a run for others to repeat ---- */

static void put(cn_tree *run, const char *name, cn_tensor *const *each, int64_t n)
{
  cn_tree_put(run, name, cn_tree_tensor(cn_stack(each, (size_t)n)));
}

/* The first steps as train() takes them. */
static void steps_of(cn_tree *run, const settings *o, cn_module *net, cn_loader *text)
{
  enum { MOST = 4000 };
  static cn_tensor *x[MOST], *y[MOST], *losses[MOST];
  cn_batch b;
  int64_t n = 0;
  cn_optim *opt = make_optimiser(net, o->lr);
  cn_schedule *rate = opt ? cn_lr_warmup_cosine(opt, o->steps / 20, o->steps, .min_factor = 0.1) : NULL;
  for (; n < o->steps && n < MOST && !cn_err() && next_batch(&b, text) == 1; n++) {
    x[n] = cn_clone(b.x);
    y[n] = cn_clone(b.y);
    cn_scope *s = cn_scope_begin();
    cn_tensor *loss = loss_of(net, &b);
    cn_backward(loss);
    cn_optim_clip_norm(opt, 1.0);
    cn_optim_step(opt);
    cn_optim_zero_grad(opt);
    cn_schedule_step(rate);
    losses[n] = cn_scope_return(s, cn_detach(loss));
  }
  put(run, "x", x, n);
  put(run, "y", y, n);
  put(run, "losses", losses, n);
  cn_schedule_free(rate);
  cn_optim_free(opt);
}

static int write_run(const char *folder, const settings *o)
{
  char path[1000];
  cn_tokenizer *characters = NULL;
  cn_tree *run = cn_tree_dict();
  cn_scope *s = cn_scope_begin();
  cn_seed((uint64_t)o->seed);
  cn_tensor *tokens = read_tokens(&characters, o->text);
  cn_module *net = tokens ? make_gpt(o, cn_tokenizer_size(characters)) : NULL;
  cn_tensor *seen = cn_narrow(tokens, 0, 0, cn_numel(tokens) / 10 * 9);
  cn_loader *text = cn_loader_new(cn_token_tensor(seen, o->context, 1), .batch = o->batch, .shuffle = true);
  if (net && text) {
    snprintf(path, sizeof path, "%s/start.safetensors", folder);
    cn_module_save(net, path);
    steps_of(run, o, net, text);
    cn_tree_put(run, "heads", cn_tree_tensor(cn_full(CN_SHAPE(1), (double)o->heads, .dtype = CN_I64)));
    cn_tree_put(run, "lr", cn_tree_tensor(cn_full(CN_SHAPE(1), o->lr, .dtype = CN_F64)));
    snprintf(path, sizeof path, "%s/run.npz", folder);
    cn_save(path, run);
  }
  cn_loader_free(text);
  cn_module_release(net);
  cn_tokenizer_free(characters);
  cn_scope_end(s);
  cn_tree_free(run);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() ? 1 : 0;
}

int main(int argc, char **argv)
{
  settings o = small();
  if (argc > 2)
    o = (settings){.steps = FIRST_STEPS, .layers = 4, .heads = 4, .width = 128, .context = 64, .batch = 16, .seed = 1,
                   .lr = 3e-3, .text = argv[2]};
  if (argc > 3) o.steps = strtoll(argv[3], NULL, 10);
  if (argc > 1) return write_run(argv[1], &o);
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_place_sees_a_later_one),
                                     cmocka_unit_test(begins_knowing_nothing),
                                     cmocka_unit_test(refuses_too_many_places)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
