/* draw.h: the demo's pictures. */
#ifndef CAIRN_DRAW_H
#define CAIRN_DRAW_H

/* Images side by side with what they were taken for; wrong ones are marked. */
void draw_digits(const int *images, const int *guesses, int n);

#endif
