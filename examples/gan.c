/* gan.c: two networks against each other: one draws digits, the other tells drawings from real ones.
 *
 * It shows two networks with an optimiser each, a loop of one's own with two losses, what cn_detach is for, and
 * pictures in a TensorBoard log.
 *
 *     cc gan.c $(pkg-config --cflags --libs cairn) -lm && ./a.out [EPOCHS [LOG_FOLDER]]
 *
 * It prints both losses along the way, draws digits that nobody wrote, and compares the mean and the spread of
 * drawn pixels with those of real ones. Without arguments it runs for a few seconds.
 */
#include <cairn/cairn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOISE = 32, PIXELS = 64, SIDE = 8, SHOWN = 4, COMPARED = 512 };

/* (n, NOISE) random numbers to (n, PIXELS) in [-1, 1] */
static cn_module *make_artist(void)
{
  return cn_nn_sequential(cn_nn_linear(NOISE, 128), cn_nn_batch_norm1d(128), cn_nn_relu(), cn_nn_linear(128, 256),
                          cn_nn_batch_norm1d(256), cn_nn_relu(), cn_nn_linear(256, PIXELS), cn_nn_tanh());
}

/* (n, PIXELS) to (n, 1): above 0 for what it holds to be real */
static cn_module *make_judge(void)
{
  return cn_nn_sequential(cn_nn_linear(PIXELS, 256), cn_nn_leaky_relu(.negative_slope = 0.2), cn_nn_dropout(.p = 0.3),
                          cn_nn_linear(256, 128), cn_nn_leaky_relu(.negative_slope = 0.2), cn_nn_dropout(.p = 0.3),
                          cn_nn_linear(128, 1));
}

static cn_tensor *draw(cn_module *artist, int64_t n) { return cn_forward(artist, cn_randn(CN_SHAPE(n, NOISE))); }

/* How far the judge is from saying so of all these images. */
static cn_tensor *verdict(cn_module *judge, cn_tensor *images, bool real)
{
  cn_tensor *score = cn_forward(judge, images);
  /* 0.9 instead of 1: a judge who is never quite sure leaves the artist something to learn from. */
  return cn_binary_cross_entropy_with_logits(score, real ? cn_full_like(score, 0.9) : cn_zeros_like(score));
}

typedef struct game {
  cn_module *artist, *judge;
  cn_optim *artist_opt, *judge_opt;
} game;

/* images: (n, PIXELS) in [-1, 1]. */
static void judge_step(game *g, cn_tensor *images, double *loss)
{
  cn_scope *s = cn_scope_begin();
  /* Detached: the judge learns from the drawing, the artist does not learn here. */
  cn_tensor *drawn = cn_detach(draw(g->artist, cn_size(images, 0)));
  cn_tensor *sum = cn_add(verdict(g->judge, images, true), verdict(g->judge, drawn, false));
  cn_optim_zero_grad(g->judge_opt); /* also what the artist's step left there */
  cn_backward(sum);
  cn_optim_step(g->judge_opt);
  *loss += cn_item(sum);
  cn_scope_end(s);
}

static void artist_step(game *g, int64_t n, double *loss)
{
  cn_scope *s = cn_scope_begin();
  /* The gradient goes through the judge to the artist; only the artist takes a step. */
  cn_tensor *fooled = verdict(g->judge, draw(g->artist, n), true);
  cn_optim_zero_grad(g->artist_opt);
  cn_backward(fooled);
  cn_optim_step(g->artist_opt);
  *loss += cn_item(fooled);
  cn_scope_end(s);
}

/* From [0, 1] to [-1, 1], as the artist's tanh gives it. (n, 1, 8, 8) to (n, PIXELS) */
static cn_tensor *as_drawn(cn_tensor *x)
{
  return cn_sub(cn_mul(cn_reshape(x, CN_SHAPE(-1, PIXELS)), cn_num(2)), cn_num(1));
}

static cn_tensor *pictures(game *g, int64_t n)
{
  int saved = cn_inference_begin();
  cn_module_train(g->artist, false);
  cn_tensor *x = cn_mul(cn_add(draw(g->artist, n), cn_num(1)), cn_num(0.5));
  cn_module_train(g->artist, true);
  cn_inference_end(saved);
  return cn_reshape(x, CN_SHAPE(n, 1, SIDE, SIDE));
}

static void play(game *g, cn_loader *digits, int epochs, cn_events *log)
{
  cn_batch b;
  for (int epoch = 1; epoch <= epochs && !cn_err(); epoch++) {
    double judged = 0, drawn = 0, n = (double)cn_loader_length(digits);
    while (cn_loader_next(&b, digits) == 1) {
      cn_scope *s = cn_scope_begin();
      judge_step(g, as_drawn(b.x), &judged);
      artist_step(g, b.size, &drawn);
      cn_scope_end(s);
    }
    if (epoch % 10 == 0) printf("epoch %3d  judge %.3f  artist %.3f\n", epoch, judged / n, drawn / n);
    if (log) {
      cn_scope *s = cn_scope_begin();
      cn_events_scalar(log, "loss/judge", judged / n, epoch);
      cn_events_scalar(log, "loss/artist", drawn / n, epoch);
      cn_events_image(log, "drawn", pictures(g, 64), epoch);
      cn_scope_end(s);
    }
  }
}

static void show(cn_tensor *images)
{
  static const char ink[] = " .:-=+*#%@";
  float pixels[SHOWN][SIDE][SIDE];
  if (cn_to_data(pixels, sizeof pixels, images)) return;
  for (int row = 0; row < SIDE; row++) {
    for (int i = 0; i < SHOWN; i++) {
      for (int column = 0; column < SIDE; column++) {
        char c = ink[(int)(pixels[i][row][column] * 9.99f)];
        printf("%c%c", c, c);
      }
      printf("  ");
    }
    printf("\n");
  }
  printf("\n");
}

/* Do drawn pixels have the mean and the spread of real ones? */
static bool alike(game *g)
{
  cn_batch b;
  cn_scope *s = cn_scope_begin();
  cn_loader *all = cn_loader_new(cn_digits(CN_TRAIN), .batch = COMPARED);
  double mean = 1, spread = 0;
  if (all && cn_loader_next(&b, all) == 1) {
    cn_tensor *drawn = pictures(g, COMPARED);
    cn_tensor *apart = cn_sub(cn_mean(drawn, .dim = CN_INTS(0)), cn_mean(b.x, .dim = CN_INTS(0)));
    mean = cn_item(cn_mean(cn_abs(apart)));
    spread = cn_item(cn_div(cn_mean(cn_std(drawn, .dim = CN_INTS(0))), cn_mean(cn_std(b.x, .dim = CN_INTS(0)))));
    printf("pixels are off by %.3f in the mean; they spread %.2f times as far as real ones\n", mean, spread);
  }
  cn_loader_free(all);
  cn_scope_end(s);
  return mean < 0.12 && spread > 0.6;
}

int main(int argc, char **argv)
{
  int epochs = argc > 1 ? atoi(argv[1]) : 60;
  bool good = false;
  cn_seed(1);
  cn_scope *s = cn_scope_begin();
  game g = {.artist = make_artist(), .judge = make_judge()};
  g.artist_opt = cn_optim_adam(g.artist, .lr = 1e-3, .betas = CN_DOUBLES(0.5, 0.999));
  g.judge_opt = cn_optim_adam(g.judge, .lr = 5e-4, .betas = CN_DOUBLES(0.5, 0.999));
  cn_loader *digits = cn_loader_new(cn_digits(CN_TRAIN), .batch = 64, .shuffle = true, .drop_last = true);
  cn_events *log = argc > 2 ? cn_events_open(argv[2]) : NULL;
  if (!cn_err()) {
    play(&g, digits, epochs, log);
    for (int row = 0; row < 2; row++) show(pictures(&g, SHOWN));
    good = alike(&g);
  }
  cn_events_close(log);
  cn_loader_free(digits);
  cn_optim_free(g.judge_opt);
  cn_optim_free(g.artist_opt);
  cn_module_release(g.judge);
  cn_module_release(g.artist);
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || !good ? 1 : 0;
}
