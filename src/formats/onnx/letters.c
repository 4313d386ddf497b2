/* letters.c: see letters.h. */
#include "letters.h"

uint32_t cni_onnx_char_next(const char **at, const char *end)
{
  const unsigned char *s = (const unsigned char *)*at;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = *s < 0x80                 ? 1
             : *s >= 0xc2 && *s < 0xe0 ? 2
             : *s >= 0xe0 && *s < 0xf0 ? 3
             : *s >= 0xf0 && *s < 0xf5 ? 4
                                       : 0;
  uint32_t c = n == 1 ? *s : n ? *s & (0xffu >> (n + 1)) : 0;
  if (!n || (size_t)(end - *at) < n) n = 0;
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) n = 0;
    else c = c << 6 | (s[i] & 0x3f);
  }
  *at += n ? n : 1;
  return n && c >= least[n] && c < 0x110000 && !(c >= 0xd800 && c < 0xe000) ? c : 0xfffd;
}

size_t cni_onnx_char_put(char *to, uint32_t c)
{
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)(first[n] | c);
  return n;
}

/* Capitals from..to, every `step`-th one, and how far their small letters are. */
static const struct {
  uint32_t from, to;
  int32_t step, away;
} cases[] = {
    {'A', 'Z', 1, 32},         {0xc0, 0xd6, 1, 32},     {0xd8, 0xde, 1, 32},        {0x100, 0x12e, 2, 1},
    {0x132, 0x136, 2, 1},      {0x139, 0x147, 2, 1},    {0x14a, 0x176, 2, 1},       {0x178, 0x178, 1, -121},
    {0x179, 0x17d, 2, 1},      {0x1cd, 0x1db, 2, 1},    {0x1de, 0x1ee, 2, 1},       {0x1f8, 0x21e, 2, 1},
    {0x222, 0x232, 2, 1},      {0x386, 0x386, 1, 38},   {0x388, 0x38a, 1, 37},      {0x38c, 0x38c, 1, 64},
    {0x38e, 0x38f, 1, 63},     {0x391, 0x3a1, 1, 32},   {0x3a3, 0x3ab, 1, 32},      {0x400, 0x40f, 1, 80},
    {0x410, 0x42f, 1, 32},     {0x460, 0x480, 2, 1},    {0x48a, 0x4be, 2, 1},       {0x4c1, 0x4cd, 2, 1},
    {0x4d0, 0x52e, 2, 1},      {0x531, 0x556, 1, 48},   {0x1c90, 0x1cba, 1, -3008}, {0x1e00, 0x1e94, 2, 1},
    {0x1ea0, 0x1efe, 2, 1},    {0x2160, 0x216f, 1, 16}, {0x24b6, 0x24cf, 1, 26},    {0xff21, 0xff3a, 1, 32},
    {0x10400, 0x10427, 1, 40},
};

uint32_t cni_onnx_lower(uint32_t c)
{
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (c >= cases[i].from && c <= cases[i].to && (c - cases[i].from) % (uint32_t)cases[i].step == 0)
      return (uint32_t)((int32_t)c + cases[i].away);
  return c;
}

uint32_t cni_onnx_upper(uint32_t c)
{
  if (c == 0x3c2) return 0x3a3; /* the sigma that ends words */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t up = (uint32_t)((int32_t)c - cases[i].away);
    if (up >= cases[i].from && up <= cases[i].to && (up - cases[i].from) % (uint32_t)cases[i].step == 0) return up;
  }
  return c;
}
