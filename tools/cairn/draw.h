/* draw.h: the demo's pictures and its progress line. */
#ifndef CAIRN_DRAW_H
#define CAIRN_DRAW_H

#include <stdbool.h>

/* Whether standard output is a terminal, where a line can be written over. */
bool draw_live(void);
/* One state of the training: over the last one on a terminal; elsewhere only when an epoch is done. */
void draw_progress(int epoch, int epochs, double part, double loss, double seconds);
/* Images side by side with what they were taken for; wrong ones are marked. */
void draw_digits(const int *images, const int *guesses, int n);

#endif
