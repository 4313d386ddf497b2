/* test_describe.c: description files: what they make, and what is said of those that are wrong. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/train.h>

#include "runs.h"
#include "test.h"

static const char whole[] = "# a comment\n"
                            "[net]\n"
                            "input = 1, 8, 8   # channels, height, width\n"
                            "[data]\n"
                            "set = digits\n"
                            "batch = 32\n"
                            "[augment]\n"
                            "RandomAffine = 10, 0.1\n"
                            "[transform]\n"
                            "Normalize = [0.3], [0.4]\n"
                            "[solver]\n"
                            "epochs = 3\n"
                            "optimizer = SGD\n"
                            "lr = 0.1\n"
                            "momentum = 0.9\n"
                            "nesterov = true\n"
                            "schedule = CosineAnnealingLR\n"
                            "label_smoothing = 0.1\n"
                            "[Conv2d] out_channels = 8 kernel_size = 3 padding = same\n"
                            "[BatchNorm2d]\n"
                            "[ReLU]\n"
                            "[repeat] n = 2\n"
                            "[residual]\n"
                            "[Conv2d] out_channels = 8, kernel_size = [3, 3], padding = 1, bias = false\n"
                            "[GroupNorm] num_groups = 2\n"
                            "[end]\n"
                            "[end]\n"
                            "[parallel] dim = 1\n"
                            "[sequential]\n"
                            "[Conv2d] out_channels = 4 kernel_size = 1\n"
                            "[PReLU]\n"
                            "[end]\n"
                            "[MaxPool2d]\n"
                            "kernel_size = 3\n"
                            "stride = 1\n"
                            "padding = 1\n"
                            "[end]\n"
                            "[Flatten]\n"
                            "[LayerNorm]\n"
                            "[Linear]\n"
                            "name = head\n"
                            "out_features = 10\n";

static cn_description *read(const char *text) { return cn_description_read(text, strlen(text), "x.cfg"); }

static void makes_the_net(void **state)
{
  (void)state;
  cn_description *d = read(whole);
  cn_module *net = cn_description_net(d);
  assert_string_equal(cn_err_message(), "");
  static const struct {
    const char *name;
    int64_t size0, size1;
  } expected[] = {{"0.weight", 8, 1},   {"1.running_mean", 8, 0}, {"3.0.weight", 8, 8}, {"4.1.weight", 8, 0},
                  {"5.0.0.weight", 4, 8}, {"7.weight", 768, 0},     {"head.weight", 10, 768}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    const cn_tensor *t = cn_module_get(net, expected[i].name);
    if (!t) fail_msg("no %s", expected[i].name);
    assert_int_equal(cn_size(t, 0), expected[i].size0);
    if (expected[i].size1) assert_int_equal(cn_size(t, 1), expected[i].size1);
  }
  assert_null(cn_module_get(net, "3.0.bias"));
  assert_true(cn_module_training(net));
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_size(cn_forward(net, cn_zeros(CN_SHAPE(2, 1, 8, 8))), 1), 10);
  cn_scope_end(s);
  cn_module_release(net);
  cn_description_free(d);
}

static void makes_the_solver(void **state)
{
  (void)state;
  bool each = true;
  cn_description *d = read(whole);
  cn_module *net = cn_description_net(d), *loss = cn_description_loss(d);
  cn_optim *opt = cn_description_optim(d, net);
  cn_schedule *schedule = cn_description_schedule(d, opt, 45, &each);
  assert_non_null(schedule);
  assert_string_equal(cn_optim_name(opt), "SGD");
  assert_float_equal(cn_optim_get(opt, 0, "momentum"), 0.9, 0);
  assert_float_equal(cn_optim_get(opt, 0, "nesterov"), 1, 0);
  assert_false(each);
  for (int i = 0; i < 3; i++) assert_int_equal(cn_schedule_step(schedule), 0);
  assert_float_equal(cn_schedule_lr(schedule, 0), 0, 1e-12); /* T_max is the number of epochs */
  assert_float_equal(cn_args_get(cn_module_args(loss), "label_smoothing")->u.f, 0.1, 0);
  cn_schedule_free(schedule);
  cn_optim_free(opt);
  cn_module_release(loss);
  cn_module_release(net);
  cn_description_free(d);
}

static void makes_the_data(void **state)
{
  (void)state;
  cn_description *d = read(whole);
  cn_dataset *train = cn_description_data(d, CN_TRAIN), *test = cn_description_data(d, CN_TEST);
  cn_sample a, b;
  assert_int_equal(cn_dataset_length(train), 1437);
  assert_int_equal(cn_dataset_length(test), 360);
  assert_string_equal(cn_dataset_label(test, 9), "9");
  assert_int_equal(cn_dataset_get(&a, test, 0), 0);
  cn_dataset *plain = cn_digits(CN_TEST);
  assert_int_equal(cn_dataset_get(&b, plain, 0), 0);
  for (int i = 0; i < 64; i++)
    assert_float_equal(((float *)cn_data(a.v[0]))[i], (((float *)cn_data(b.v[0]))[i] - 0.3f) / 0.4f, 1e-5);
  cn_sample_clear(&a);
  cn_sample_clear(&b);
  cn_dataset_release(plain);
  cn_dataset_release(train);
  cn_dataset_release(test);
  cn_description_free(d);
}

static void settings_can_be_changed(void **state)
{
  (void)state;
  cn_description *d = read(whole);
  assert_int_equal(cn_tree_as_int(cn_description_get(d, "solver", "epochs"), 0), 3);
  assert_null(cn_description_get(d, "solver", "seed"));
  assert_int_equal(cn_description_set(d, "solver", "epochs", "7"), 0);
  assert_int_equal(cn_description_set(d, "data", "labels", "\"a, b\", c, 3"), 0);
  assert_int_equal(cn_description_set(d, "solver", "momentum", NULL), 0);
  assert_int_equal(cn_description_set(d, "solver", "nesterov", NULL), 0);
  char *text = cn_description_to_string(d);
  cn_description *again = read(text);
  assert_string_equal(cn_err_message(), "");
  assert_int_equal(cn_tree_as_int(cn_description_get(again, "solver", "epochs"), 0), 7);
  assert_string_equal(cn_tree_as_str(cn_tree_at(cn_description_get(again, "data", "labels"), 0), ""), "a, b");
  assert_null(cn_description_get(again, "solver", "momentum"));
  char *same = cn_description_to_string(again);
  assert_string_equal(same, text);
  cn_string_free(same);
  cn_string_free(text);
  cn_description_free(again);
  assert_true(cn_description_set(d, "solver", "epocs", "7") < 0);
  cn_err_clear();
  cn_description_free(d);
}

/* What is wrong with a text: reading it or making its net must fail with exactly this. */
static void check_error(const char *text, const char *message)
{
  cn_description *d = read(text);
  cn_module *net = d ? cn_description_net(d) : NULL;
  assert_null(net);
  if (strcmp(cn_err_message(), message))
    fail_msg("%s\nis said to be wrong by\n%s\nnot\n%s", text, cn_err_message(), message);
  cn_err_clear();
  cn_description_free(d);
}

static void errors_name_the_place(void **state)
{
  (void)state;
  check_error("[net]\ninput = 4\n[Linaer] out_features = 3\n",
              "x.cfg:3: there is no layer 'Linaer'; the nearest are Linear, Bilinear");
  check_error("[net]\ninput = 4\n[Linear] out_feature = 3\n",
              "x.cfg:3: there is no argument of Linear 'out_feature'; there are in_features, out_features, bias, "
              "device, dtype");
  check_error("[net]\ninput = 4\n[Linear]\nout_features = many\n",
              "x.cfg:4: Linear: out_features must be a whole number");
  check_error("[net]\ninput = 4\n[Linear]\n", "x.cfg:3: [Linear] needs out_features");
  check_error("[net]\ninput = 4\n[Linear] out_features = 3\n\n[Conv2d] out_channels = 3 kernel_size = 3\n",
              "x.cfg:5: Conv2d: conv2d: takes inputs of shape (N, C, H, W) or (C, H, W), not (1, 3)");
  check_error("[net]\ninput = 4\n[Linear] out_features = 3 out_features = 4\n",
              "x.cfg:3: [Linear]: out_features is given twice");
  check_error("[net]\ninput = 4\nclasses = 5\n[Linear] out_features = 3\n",
              "x.cfg:3: [net]: there are 5 classes, but the last layer gives 3 numbers");
  check_error("[residual]\n[ReLU]\n", "x.cfg:1: [residual] has no [end]");
  check_error("[end]\n", "x.cfg:1: [end] without a block that it could end");
  check_error("[repeat] m = 3\n[end]\n", "x.cfg:1: there is no argument of repeat 'm'; there is n");
  check_error("[repeat] n = 100\n[repeat] n = 100\n[ReLU]\n[end]\n[end]\n",
              "x.cfg: describes a net of 10000 layers or more");
  check_error("[repeat] n = 1000000000\n[end]\n", "x.cfg: describes a net of 10000 layers or more");
  check_error("[repeat]\n[end]\n", "x.cfg:1: [repeat] needs n, a whole number above 0");
  check_error("[repeat] n = 2\n[net]\n", "x.cfg:2: [net] inside of [repeat], which has no [end]");
  check_error("input = 4\n", "x.cfg:1: a key before the first [section]");
  check_error("[net]\ninput 4\n", "x.cfg:2: cannot make sense of 'input 4'; a line is [section] or key = value");
  check_error("[net\n", "x.cfg:1: cannot make sense of '[net'; a section is [name]");
  check_error("[net]\n[net]\n", "x.cfg:2: a second [net]");
  check_error("[net]\ninput =\n", "x.cfg:2: input: a value is missing");
  check_error("[net]# comment\ninput =# 3\n", "x.cfg:2: input: a value is missing");
  check_error("[net]\ninput = [1, 2\n", "x.cfg:2: input: a list has no closing ]");
  check_error("[net]\ninput = 1, -2\n[ReLU]\n", "x.cfg:2: [net]: input has a size below 1");
  check_error("[net]\nzoo = \"resnet\n", "x.cfg:2: zoo: a text has no closing \"");
  check_error("[net]\nzoo = 3\n", "x.cfg:2: [net]: zoo must be a word");
  check_error("[net]\nzoo = lenet\n[ReLU]\n", "x.cfg:3: [ReLU]: a net of the zoo has its own layers");
  check_error("[net]\ninput = 3\n", "x.cfg: describes no net: give layers, or zoo = NAME in [net]");
  check_error("[ReLU]\n", "x.cfg: says nothing of the net's input: give input = SIZES in [net], or set in [data]");
  check_error("[data]\nset = no/such/set\n[ReLU]\n",
              "x.cfg:2: [data]: there is no data set, folder or file 'no/such/set'");
  check_error("[solver]\noptimizer = Adm\n",
              "x.cfg:2: there is no optimizer 'Adm'; the nearest are Adam, AdamW, NAdam");
  check_error("[solver]\nschedule = StepLr\n", "x.cfg:2: there is no schedule 'StepLr'; the nearest are StepLR, SWALR");
  check_error("[solver]\nloss = MSELos\n",
              "x.cfg:2: there is no loss 'MSELos'; the nearest are MSELoss, BCELoss, L1Loss");
  check_error("[solver]\nprecision = float8\n",
              "x.cfg:2: there is no precision 'float8'; there are float32, bfloat16, float16");
  check_error("[solver]\nschedule.eps = 1\n", "x.cfg:2: there is no key of [solver] 'schedule.eps'; the nearest is "
                                              "schedule");
  check_error("[augment]\nRandomCrop = 1, 2, 3\n",
              "x.cfg:2: RandomCrop: too many arguments for RandomCrop(int size, int padding=0) -> Transform");
  check_error("[augment]\nNormalize = 0.1\n",
              "x.cfg:2: Normalize: Normalize needs a mean and a deviation for each channel, it has 1 and 0");
}

static void too_many_labels_are_an_error(void **state)
{
  (void)state;
  cn_text t = {0};
  cn_text_put(&t, "[data]\nset = digits\nlabels = 0");
  for (int i = 1; i < 2049; i++) cn_text_putf(&t, ", %d", i);
  cn_description *d = cn_description_read(t.s, t.n, "x.cfg");
  assert_non_null(d);
  assert_null(cn_description_data(d, CN_TEST));
  assert_string_equal(cn_err_message(), "x.cfg:2: [data]: labels names 2049 classes; up to 2048 can be named");
  cn_err_clear();
  cn_description_free(d);
  cn_text_free(&t);
}

/* Any bytes are read or refused. */
static void survives_damage(void **state)
{
  (void)state;
  char text[sizeof whole];
  for (size_t i = 0; i < sizeof whole - 1; i++) {
    memcpy(text, whole, sizeof whole);
    text[i] = "[]=,#\"\n\0 z"[i % 10];
    cn_description *d = cn_description_read(text, sizeof whole - 1, "x.cfg");
    if (i % 16 == 0 && d) cn_module_release(cn_description_net(d));
    cn_description_free(d);
    cn_err_clear();
    d = cn_description_read(whole, i, "x.cfg");
    cn_description_free(d);
    cn_err_clear();
  }
}

static void survives_lack_of_memory(void **state)
{
  (void)state;
  bool done = false;
  cn_set_num_threads(1);
  for (uint64_t k = 1; !done; k += k < 400 ? 1 : 37) {
    bool each;
    cn_memory_fail_at(k);
    cn_description *d = read(whole);
    cn_module *net = d ? cn_description_net(d) : NULL, *loss = d ? cn_description_loss(d) : NULL;
    cn_optim *opt = net ? cn_description_optim(d, net) : NULL;
    cn_schedule *schedule = opt ? cn_description_schedule(d, opt, 4, &each) : NULL;
    cn_dataset *set = d ? cn_description_data(d, CN_TRAIN) : NULL;
    cn_memory_fail_at(0);
    done = !cn_err();
    if (!done) assert_int_equal(cn_err(), CN_ERR_MEMORY);
    cn_err_clear();
    cn_dataset_release(set);
    cn_schedule_free(schedule);
    cn_optim_free(opt);
    cn_module_release(loss);
    cn_module_release(net);
    cn_description_free(d);
  }
  cn_set_num_threads(0);
}

static void takes_nets_of_the_zoo(void **state)
{
  (void)state;
  cn_description *d = read("[net]\nzoo = lenet\ninput = 1, 16, 16\n[data]\nset = digits\n");
  cn_module *net = cn_description_net(d);
  assert_string_equal(cn_err_message(), "");
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_size(cn_forward(net, cn_zeros(CN_SHAPE(2, 1, 16, 16))), 1), 10);
  cn_scope_end(s);
  cn_module_release(net);
  cn_description_free(d);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(makes_the_net),         cmocka_unit_test(makes_the_solver),
    cmocka_unit_test(makes_the_data),        cmocka_unit_test(settings_can_be_changed),
    cmocka_unit_test(errors_name_the_place), cmocka_unit_test(too_many_labels_are_an_error),
    cmocka_unit_test(survives_damage),       cmocka_unit_test(survives_lack_of_memory),
    cmocka_unit_test(takes_nets_of_the_zoo),
  };
  int status = cmocka_run_group_tests(tests, NULL, NULL);
  remove_temporary();
  return status;
}
