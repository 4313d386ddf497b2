/* embed.c: `cairn embed`: sentence embeddings of texts, and how alike they are. */
#include <cairn/cairn.h>
#include <cairn/io.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "language.h"

const char help_embed[] =
    "FOLDER holds a BERT-like model as sentence-transformers saves it (config.json, weights, tokenizer.json or\n"
    "vocab.txt): all-MiniLM-L6-v2, say. Each text becomes a vector of length 1; the table shows their cosines, which\n"
    "are near 1 for texts of like meaning.\n"
    "\n"
    "  --out FILE       write the vectors (texts, dims) as .npy or .safetensors\n"
    "  --model NAME     of the zoo, where there is no config.json: minilm, bert, bert-large\n"
    "  --device D       cpu, cuda, cuda:1\n";

enum { TEXTS = 512 };

static void print_table(const char *const *texts, const float *cosines, int n)
{
  for (int i = 0; i < n; i++) printf("%3d  %s\n", i + 1, texts[i]);
  if (n < 2) return;
  printf("\n     ");
  for (int i = 0; i < n; i++) printf(" %6d", i + 1);
  printf("\n");
  for (int i = 0; i < n; i++) {
    printf("%5d", i + 1);
    for (int k = 0; k < n; k++) printf(" %6.3f", (double)cosines[i * n + k]);
    printf("\n");
  }
}

static void print_vector(cn_tensor *vectors)
{
  enum { SHOWN = 6 };
  float v[SHOWN];
  int64_t dims = cn_size(vectors, 1), n = dims < SHOWN ? dims : SHOWN;
  if (cn_to_data(v, sizeof v, cn_narrow(cn_select(vectors, 0, 0), 0, 0, n))) return;
  printf("     ");
  for (int64_t i = 0; i < n; i++) printf("%.4f, ", (double)v[i]);
  printf("... (%lld dimensions)\n", (long long)dims);
}

static int save(const char *path, cn_tensor *vectors)
{
  size_t n = strlen(path);
  if (n > 4 && !strcmp(path + n - 4, ".npy")) return cn_save_npy(path, vectors);
  cn_tree *tree = cn_tree_dict();
  int status = tree ? cn_tree_put(tree, "embeddings", cn_tree_tensor(vectors)) : cn_err();
  if (!status) status = cn_save(path, tree);
  cn_tree_free(tree);
  return status;
}

static int embed(const char *const *words, int n, const char *name, const char *out, cn_device device)
{
  static float cosines[TEXTS * TEXTS];
  language l;
  if (!language_open(&l, words[0], name) && device) cn_module_to(l.net, device, CN_DTYPE_NONE);
  cn_scope *s = cn_scope_begin();
  int saved = cn_inference_begin();
  cn_tensor *v = cn_err() ? NULL : cn_embed(l.net, l.tokenizer, words + 1, (size_t)n);
  v = v ? cn_cast(cn_to_device(v, CN_CPU), CN_F32) : NULL;
  if (v && !cn_to_data(cosines, sizeof cosines, cn_matmul(v, cn_transpose(v, 0, 1)))) {
    print_table(words + 1, cosines, n);
    if (n == 1) print_vector(v);
  }
  if (v && out && !cn_err()) save(out, v);
  cn_inference_end(saved);
  cn_scope_end(s);
  language_close(&l);
  return cn_err() ? command_failed() : 0;
}

int command_embed(int argc, char **argv)
{
  const char *words[TEXTS + 1], *name = NULL, *out = NULL, *on = NULL;
  const command_flag flags[] = {{"--out", &out, NULL}, {"--model", &name, NULL}, {"--device", &on, NULL},
                                {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, words, TEXTS + 1);
  if (n < 0) return 2;
  if (n < 2) return command_missing(argv[0], n ? "a text is missing" : "a folder is missing");
  cn_device device = on ? cn_device_find(on) : CN_DEVICE_DEFAULT;
  return cn_err() ? command_failed() : embed(words, n - 1, name, out, device);
}
