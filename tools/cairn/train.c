/* train.c: `cairn train`: trains what a description file says, or a network of the zoo on some data.
 *
 * Place in the flow: options become settings of a description, training.c does the rest. Invariant: what was trained
 * stands in the folder as a description file, however the run was asked for. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/zoo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"
#include "training.h"

const char help_train[] =
    "FILE.cfg describes network, data and solver (docs/DESCRIPTION_FILES.md); examples/digits.cfg is one.\n"
    "Without it, --model names a network of the zoo and --data what to learn:\n"
    "  digits                    the hand-written digits that are compiled in\n"
    "  FOLDER                    MNIST's IDX files, CIFAR's binary files, or a folder of images for each class\n"
    "                            (perhaps below train/ and val/)\n"
    "  FILE                      .csv (the last column is the class), .npz, .npy, .safetensors, .pt (x and y), .txt\n"
    "\n"
    "options (they replace what the file says):\n"
    "  --epochs N --batch N --lr R --seed N --workers N\n"
    "  --optimizer NAME --schedule NAME --loss NAME     classes by PyTorch's names: SGD, OneCycleLR, MSELoss\n"
    "  --weight-decay R --clip R --patience N           decay; largest norm of gradients; epochs until it gives up\n"
    "  --input SIZES --classes N --pretrained FILE      of the network: 3,224,224\n"
    "  --precision float32|bfloat16|float16             mixed precision\n"
    "  --device D                                       cpu, cuda, cuda:1\n"
    "  --out DIR                                        where it writes; runs/NAME\n"
    "  --resume DIR                                     go on with the run of that folder\n"
    "\n"
    "The folder gets best.safetensors and last.safetensors (checkpoints), net.cfg (what was trained), log.csv and\n"
    "events for `tensorboard --logdir`. Ctrl-C stops after the present batch with a checkpoint; twice: at once.\n";

/* Options that are settings of the description. */
static const struct setting {
  const char *flag, *section, *key;
} settings[] = {
    {"--data", "data", "set"},            {"--model", "net", "zoo"},           {"--epochs", "solver", "epochs"},
    {"--batch", "data", "batch"},         {"--lr", "solver", "lr"},            {"--seed", "solver", "seed"},
    {"--workers", "data", "workers"},     {"--optimizer", "solver", "optimizer"}, {"--schedule", "solver", "schedule"},
    {"--loss", "solver", "loss"},         {"--weight-decay", "solver", "weight_decay"},
    {"--clip", "solver", "clip_norm"},    {"--patience", "solver", "patience"}, {"--input", "net", "input"},
    {"--classes", "net", "classes"},      {"--pretrained", "net", "pretrained"}, {"--precision", "solver", "precision"},
};
enum { SETTINGS = sizeof settings / sizeof *settings, FLAGS = SETTINGS + 4 };

typedef struct request {
  const char *file, *resume, *out, *device;
  const char *values[SETTINGS];
} request;

/* 0, or the exit status of wrong usage. */
static int parse(request *r, int argc, char **argv)
{
  command_flag flags[FLAGS] = {{"--resume", &r->resume, NULL}, {"--out", &r->out, NULL},
                               {"--device", &r->device, NULL}};
  for (int i = 0; i < SETTINGS; i++) flags[3 + i] = (command_flag){settings[i].flag, &r->values[i], NULL};
  int n = command_parse(argc, argv, flags, &r->file, 1);
  if (n < 0) return 2;
  if (r->file && r->resume) return command_missing(argv[0], "--resume DIR goes on with that folder's own file");
  if (!r->file && !r->resume && (!r->values[0] || !r->values[1]))
    return command_missing(argv[0], "there is nothing to train: give FILE.cfg, or --data and --model");
  return 0;
}

static int apply(cn_description *d, const request *r)
{
  int status = CN_OK;
  for (int i = 0; i < SETTINGS && !status; i++) {
    const struct setting *s = &settings[i];
    bool path = !strcmp(s->key, "set") || !strcmp(s->key, "pretrained");
    if (!r->values[i]) continue;
    status = (path ? model_set_text : cn_description_set)(d, s->section, s->key, r->values[i]);
  }
  return status;
}

/* Is it a folder of folders: images by their classes? Other sets are files in one folder. */
static bool holds_folders(const char *path)
{
  char below[COMMAND_PATH];
  cn_names names = {NULL, 0, 0};
  bool folders = false;
  if (cn_path_kind_of(path) != CN_PATH_FOLDER || cn_folder_list(&names, path)) return false;
  for (size_t i = 0; i < names.n; i++)
    folders |= cn_path_kind_of(command_join(below, path, names.v[i])) == CN_PATH_FOLDER;
  cn_names_free(&names);
  return folders;
}

/* A network of the zoo on some data; photographs get the size and the treatment that it was made for. */
static cn_description *from_options(const request *r)
{
  char text[COMMAND_PATH * 2];
  const char *data = r->values[0], *net = r->values[1];
  int n = snprintf(text, sizeof text, "[net]\nzoo = %s\n[data]\nset = \"%s\"\nbatch = 32\n[solver]\nepochs = 10\n", net,
                   data);
  if (holds_folders(data) && cn_zoo_takes(net, "channels") && strcmp(net, "lenet"))
    snprintf(text + n, sizeof text - (size_t)n,
             "[augment]\nRandomResizedCrop = 224\nRandomHorizontalFlip = 0.5\n[test]\nResize = 256\nCenterCrop = 224\n"
             "[transform]\nNormalize = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]\n");
  return cn_description_read(text, strlen(text), "cairn train");
}

/* runs/NAME of the file or the network. */
static void default_out(char *out, const request *r)
{
  const char *from = r->file ? r->file : r->values[1], *slash = strrchr(from, '/');
  if (slash) from = slash + 1;
  snprintf(out, COMMAND_PATH, "runs/%s", from);
  char *dot = strrchr(out, '.');
  if (r->file && dot && dot > strrchr(out, '/')) *dot = 0;
}

static cn_description *describe(request *r, training *t, char *path)
{
  if (r->resume) {
    t->out = r->resume;
    t->resume = true;
    return cn_description_open(command_join(path, r->resume, MODEL_FILE));
  }
  default_out(path, r);
  t->out = r->out ? r->out : path;
  return r->file ? cn_description_open(r->file) : from_options(r);
}

static void report(const training *t)
{
  if (!isnan(t->loss)) {
    printf("last epoch: test loss %.4f", t->loss);
    if (!isnan(t->accuracy)) printf(", accuracy %.2f %%", 100 * t->accuracy);
    printf("\n");
  }
  if (t->interrupted)
    printf("Stopped. The checkpoint is in %s; go on with\n  %s train --resume %s\n", t->out, command_program, t->out);
  else
    printf("The checkpoints are in %s; to use them:\n  %s predict %s INPUT...\n  %s eval %s\n", t->out, command_program,
           t->out, command_program, t->out);
}

int command_train(int argc, char **argv)
{
  request r = {.file = NULL};
  training t = {.device = CN_CPU};
  char path[COMMAND_PATH];
  int status = parse(&r, argc, argv);
  if (status) return status;
  if (r.device && !(t.device = cn_device_find(r.device))) return command_failed();
  cn_description *d = describe(&r, &t, path);
  if (d && !apply(d, &r)) training_run(&t, d);
  cn_description_free(d);
  if (cn_err()) return command_failed();
  report(&t);
  return t.interrupted ? 130 : 0;
}
