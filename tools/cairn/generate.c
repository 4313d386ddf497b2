/* generate.c: `cairn generate`: continues a text with a language model, and shows each token as it comes. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "language.h"

const char help_generate[] =
    "MODEL is a folder of a GPT-2 or LLaMA-like model as transformers saves it (config.json, model.safetensors or\n"
    "pytorch_model.bin, tokenizer.json or vocab.json and merges.txt), a file of weights in it, or a folder of\n"
    "`cairn train` on a text.\n"
    "\n"
    "  --prompt TEXT        what to continue\n"
    "  --tokens N           how many to add; 100\n"
    "  --temperature R      1 as the model says, below it bolder, 0 always the likeliest; 0.8\n"
    "  --top-k N            only among the N likeliest; 0: all\n"
    "  --top-p R            only among those that make up this probability; 0: all\n"
    "  --seed N             of the random choices; 1\n"
    "  --model NAME         of the zoo, where there is no config.json\n"
    "  --device D           cpu, cuda, cuda:1\n";

enum { MOST = 65536 };

/* What has been shown so far. Tokens may be parts of characters, so the whole is decoded each time and what is new is
 * written. */
typedef struct stream {
  cn_tokenizer *tokenizer;
  int64_t tokens[MOST];
  size_t n, shown;
} stream;

static bool show(int64_t token, void *payload)
{
  stream *s = payload;
  void *bytes;
  size_t size;
  if (s->n == MOST) return false;
  s->tokens[s->n++] = token;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *all = cn_from_data(s->tokens, CN_SHAPE((int64_t)s->n), CN_I64);
  if (all && !cn_tokenizer_decode_bytes(&bytes, &size, s->tokenizer, all, true)) {
    if (size > s->shown) fwrite((char *)bytes + s->shown, 1, size - s->shown, stdout);
    if (size > s->shown) s->shown = size;
    fflush(stdout);
    cn_free(bytes, size);
  }
  cn_scope_end(scope);
  return !cn_err();
}

typedef struct request {
  const char *prompt, *name;
  int64_t tokens, top_k, seed;
  double temperature, top_p;
} request;

static int generate(const char *what, const request *r, cn_device device)
{
  static stream s;
  language l;
  if (!language_open(&l, what, r->name) && device) cn_module_to(l.net, device, CN_DTYPE_NONE);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *prompt = cn_err() ? NULL : cn_tokenizer_encode(l.tokenizer, r->prompt, strlen(r->prompt), false);
  if (prompt && !cn_numel(prompt)) cn_err_set(CN_ERR_VALUE, "the prompt is empty");
  if (prompt && !cn_err()) {
    int64_t end = cn_tokenizer_id(l.tokenizer, "<|endoftext|>");
    if (end < 0) end = cn_tokenizer_id(l.tokenizer, "</s>");
    s.tokenizer = l.tokenizer;
    printf("%s", r->prompt);
    fflush(stdout);
    cn_seed((uint64_t)r->seed);
    prompt = cn_unsqueeze(prompt, 0);
    cn_generate(l.net, device ? cn_to_device(prompt, device) : prompt, .max_new_tokens = r->tokens,
                .temperature = r->temperature > 0 ? r->temperature : (double)CN_ZERO, .top_k = r->top_k,
                .top_p = r->top_p, .stop = end < 0 ? 0 : end == 0 ? CN_ZERO : end, .each = show, .payload = &s);
    printf("\n");
  }
  cn_scope_end(scope);
  language_close(&l);
  return cn_err() ? command_failed() : 0;
}

int command_generate(int argc, char **argv)
{
  const char *what = NULL, *tokens = NULL, *top_k = NULL, *seed = NULL, *temperature = NULL, *top_p = NULL, *on = NULL;
  request r = {.tokens = 100, .seed = 1, .temperature = 0.8};
  const command_flag flags[] = {{"--prompt", &r.prompt, NULL}, {"--tokens", &tokens, NULL}, {"--top-k", &top_k, NULL},
                                {"--top-p", &top_p, NULL}, {"--temperature", &temperature, NULL},
                                {"--seed", &seed, NULL}, {"--model", &r.name, NULL}, {"--device", &on, NULL},
                                {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "a model is missing");
  if (!r.prompt) return command_missing(argv[0], "--prompt TEXT is missing");
  if (!command_whole(&r.tokens, tokens) || r.tokens < 1 || r.tokens > MOST) return command_usage(argv[0], tokens);
  if (!command_whole(&r.top_k, top_k) || r.top_k < 0) return command_usage(argv[0], top_k);
  if (!command_number(&r.top_p, top_p) || r.top_p < 0 || r.top_p > 1) return command_usage(argv[0], top_p);
  if (!command_number(&r.temperature, temperature) || r.temperature < 0) return command_usage(argv[0], temperature);
  if (!command_whole(&r.seed, seed)) return command_usage(argv[0], seed);
  cn_device device = on ? cn_device_find(on) : CN_DEVICE_DEFAULT;
  return cn_err() ? command_failed() : generate(what, &r, device);
}
