/* char_lstm.c: a recurrent network that learns a text character by character, carrying its memory along.
 *
 * It shows a module with several inputs and results (the state of its LSTM), training by truncated back-propagation
 * through time (the text runs through in pieces; the state goes on from piece to piece, gradients do not), gradient
 * clipping, validation, and writing text one character at a time.
 *
 *     cc char_lstm.c $(pkg-config --cflags --libs cairn) -lm && ./a.out input.txt
 *
 *     ./a.out [TEXT] [STEPS]
 *
 * TEXT may be gzipped; its last tenth is for validation. It prints losses (in nats a character) along the way and then
 * 300 characters of the network's own. With the text of tiny-shakespeare the validation loss is 1.66 after 600 steps, a
 * minute or two on two cores. Without arguments it learns, in a few seconds, to count in words.
 */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 32, LENGTH = 64 }; /* so many pieces of so many characters are looked at in a step */

/* ---- the model ---- */

enum { CHARACTERS, LSTM, HEAD };

static int model_init(cn_module *m, const cn_value *args)
{
  int64_t vocab = args[0].u.i, width = args[1].u.i;
  cn_module_add(m, "characters", cn_nn_embedding(vocab, width));
  cn_module_add(m, "lstm", cn_nn_lstm(width, width, .num_layers = args[2].u.i, .batch_first = true));
  return cn_module_add(m, "head", cn_nn_linear(width, vocab));
}

/* tokens: (rows, time); h, c: (layers, rows, width), NULL at the beginning; scores: (rows, time, vocab) */
static int model_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *tokens = call->args[0].u.t, *h = call->args[1].u.t, *c = call->args[2].u.t;
  cn_tensor *in[3] = {cn_forward(cn_module_child(m, CHARACTERS), tokens), h, c};
  if (cn_forward_all(call->out, 3, cn_module_child(m, LSTM), in, 3)) return cn_err();
  call->out[0] = cn_forward(cn_module_child(m, HEAD), call->out[0]);
  return cn_err();
}

static const cn_module_class model_class = {
  CN_MODULE_CLASS,
  .name = "CharLSTM",
  .sig = "CharLSTM(int vocab, int width, int layers) -> Module",
  .doc = "Scores for the character that follows each one.",
  .call = "(Tensor tokens, Tensor? h_0=None, Tensor? c_0=None) -> (Tensor scores, Tensor h_n, Tensor c_n)",
  .init = model_init,
  .forward = model_forward,
};

/* What the network remembers between two calls; owned. */
typedef struct memory {
  cn_tensor *h, *c;
} memory;

static void forget(memory *state)
{
  cn_release(state->h);
  cn_release(state->c);
  *state = (memory){NULL, NULL};
}

/* Scores for these tokens; the memory goes on, but no gradient flows back through it. */
static cn_tensor *run(cn_module *net, cn_tensor *tokens, memory *state)
{
  cn_tensor *out[3] = {NULL}, *in[3] = {tokens, state->h, state->c};
  if (!tokens || cn_forward_all(out, 3, net, in, 3)) return NULL;
  cn_set(&state->h, cn_detach(out[1]));
  cn_set(&state->c, cn_detach(out[2]));
  return out[0];
}

/* ---- the text ---- */

/* One, two, ... ninety nine, so many times. Owned: cn_string_free. */
static char *counting(int times)
{
  static const char *const low[] = {"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
                                    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                                    "eighteen", "nineteen"};
  static const char *const tens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
                                     "ninety"};
  cn_text text = {0};
  for (int i = 0; i < times * 99; i++) {
    int n = i % 99 + 1;
    if (n >= 20) cn_text_putf(&text, "%s%s%s", tens[n / 10], n % 10 ? " " : "", low[n % 10]);
    else cn_text_put(&text, low[n]);
    cn_text_put(&text, n % 10 == 9 ? "\n" : ", ");
  }
  return cn_text_take(&text);
}

/* The characters of a text as numbers (n), and who gave them. */
static cn_tensor *numbered(cn_tokenizer **characters, const void *text, size_t size)
{
  *characters = cn_tokenizer_chars(text, size);
  return *characters ? cn_tokenizer_encode(*characters, text, size, false) : NULL;
}

static cn_tensor *read_tokens(cn_tokenizer **characters, const char *path)
{
  cn_mapping file;
  void *unpacked;
  size_t size;
  cn_tensor *tokens = NULL;
  if (!path) {
    char *text = counting(60);
    if (text) tokens = numbered(characters, text, strlen(text));
    cn_string_free(text);
    return tokens;
  }
  if (cn_map_open(&file, path)) return NULL;
  if (!cn_is_gzip(file.data, file.size)) {
    tokens = numbered(characters, file.data, file.size);
  } else if (!cn_gunzip(&unpacked, &size, file.data, file.size)) {
    tokens = numbered(characters, unpacked, size);
    cn_free(unpacked, size);
  }
  cn_map_close(&file);
  return tokens;
}

/* A text (n) cut into ROWS rows that are read side by side: (ROWS, n / ROWS). */
static cn_tensor *in_rows(cn_tensor *tokens)
{
  int64_t length = cn_numel(tokens) / ROWS;
  return cn_view(cn_narrow(tokens, 0, 0, ROWS * length), CN_SHAPE(ROWS, length));
}

/* ---- training ---- */

/* The loss on piece `i` of the rows. */
static cn_tensor *loss_of(cn_module *net, cn_tensor *rows, int64_t i, memory *state)
{
  cn_tensor *x = cn_narrow(rows, 1, i * LENGTH, LENGTH), *y = cn_narrow(rows, 1, i * LENGTH + 1, LENGTH);
  cn_tensor *scores = run(net, x, state);
  return cn_cross_entropy(cn_reshape(scores, CN_SHAPE(-1, cn_size(scores, 2))), cn_reshape(y, CN_SHAPE(-1)));
}

static double validate(cn_module *net, cn_tensor *rows)
{
  memory state = {NULL, NULL};
  double sum = 0;
  int64_t pieces = (cn_size(rows, 1) - 1) / LENGTH;
  int saved = cn_no_grad_begin();
  for (int64_t i = 0; i < pieces; i++) {
    cn_scope *s = cn_scope_begin();
    sum += cn_item(loss_of(net, rows, i, &state));
    cn_scope_end(s);
  }
  cn_no_grad_end(saved);
  forget(&state);
  return sum / (double)pieces;
}

/* The last loss on the text for validation. */
static double train(cn_module *net, cn_tensor *rows, cn_tensor *unseen, int64_t steps)
{
  memory state = {NULL, NULL};
  cn_optim *opt = cn_optim_adam(net, .lr = 6e-3);
  cn_schedule *rate = opt ? cn_lr_warmup_cosine(opt, steps / 20, steps, .min_factor = 0.02) : NULL;
  int64_t pieces = (cn_size(rows, 1) - 1) / LENGTH, every = steps / 8 ? steps / 8 : 1;
  double last = NAN, start = cn_clock();
  for (int64_t step = 0; step < steps && !cn_err(); step++) {
    cn_scope *s = cn_scope_begin();
    if (step % pieces == 0) forget(&state); /* the text begins again */
    cn_tensor *loss = loss_of(net, rows, step % pieces, &state);
    cn_backward(loss);
    cn_optim_clip_norm(opt, 1.0); /* gradients through time may explode */
    cn_optim_step(opt);
    cn_optim_zero_grad(opt);
    cn_schedule_step(rate);
    if (step % every == every - 1 || step == steps - 1) {
      last = validate(net, unseen);
      printf("step %5lld  loss %.3f  validation %.3f  %.0f s\n", (long long)step + 1, cn_item(loss), last,
             cn_clock() - start);
      fflush(stdout);
    }
    cn_scope_end(s);
  }
  forget(&state);
  cn_schedule_free(rate);
  cn_optim_free(opt);
  return last;
}

/* Each character drawn is all that the next call needs: the rest is in the memory. */
static void write_text(cn_module *net, cn_tokenizer *characters, int length)
{
  memory state = {NULL, NULL};
  int saved = cn_inference_begin();
  cn_tensor *token = cn_keep(cn_tokenizer_encode(characters, "\n", 1, false)); /* (1) */
  for (int i = 0; i < length && !cn_err(); i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *scores = cn_reshape(run(net, cn_unsqueeze(token, 0), &state), CN_SHAPE(-1)); /* (vocab) */
    cn_set(&token, cn_multinomial(cn_softmax(cn_div(scores, cn_num(0.7)), 0), 1));
    const char *character = cn_err() ? "" : cn_tokenizer_token(characters, cn_item_int(token));
    printf("%s", character ? character : "?");
    cn_scope_end(s);
  }
  printf("\n");
  cn_release(token);
  forget(&state);
  cn_inference_end(saved);
}

int main(int argc, char **argv)
{
  const char *path = argc > 1 ? argv[1] : NULL;
  int64_t steps = argc > 2 ? strtoll(argv[2], NULL, 10) : path ? 600 : 320;
  double loss = NAN;
  cn_tokenizer *characters = NULL;
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  cn_tensor *tokens = read_tokens(&characters, path);
  int64_t size = cn_numel(tokens), split = size / 10 * 9;
  if (!cn_err() && (size - split) / ROWS <= LENGTH)
    cn_err_set(CN_ERR_VALUE, "the text is too short: it needs more than %d characters", 10 * ROWS * (LENGTH + 1));
  cn_value args[] = {cn_v_int(cn_tokenizer_size(characters)), cn_v_int(path ? 256 : 96), cn_v_int(path ? 2 : 1)};
  cn_module *net = cn_err() ? NULL : cn_module_make_class(&model_class, args, 3);
  if (net) {
    cn_tensor *rows = in_rows(cn_narrow(tokens, 0, 0, split));
    cn_tensor *unseen = in_rows(cn_narrow(tokens, 0, split, size - split));
    printf("%lld characters, %lld different ones; %lld parameters\n", (long long)size, (long long)args[0].u.i,
           (long long)cn_module_count(net, false));
    loss = train(net, rows, unseen, steps);
    write_text(net, characters, 300);
  }
  cn_module_release(net);
  cn_tokenizer_free(characters);
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || (!path && !(loss < 0.5)) ? 1 : 0;
}
