/* wav.c: sound from and to WAV files. See data.h.
 *
 * Place in the flow: a reader of its own; nothing else knows the format. Invariant: every length in the file is
 * checked against the bytes that are there; a data chunk that claims more than the file has (streamed ones do) ends
 * with it. */
#include <math.h>
#include <string.h>

#include "data.h"

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xFFFE, MAX_CHANNELS = 1024 };

typedef struct wav {
  unsigned format, channels, rate, bits;
  const unsigned char *samples;
  size_t size;
} wav;

static unsigned two(const unsigned char *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }
static unsigned four(const unsigned char *p) { return two(p) | two(p + 2) << 16; }

/* Finds the chunks with the format and the samples; those between are skipped. */
static int parse(wav *w, const unsigned char *p, size_t size, const char *path)
{
  *w = (wav){0};
  if (size < 12 || memcmp(p, "RIFF", 4) || memcmp(p + 8, "WAVE", 4))
    return cn_err_set(CN_ERR_IO, "%s: is not a WAV file", path);
  for (size_t at = 12; at + 8 <= size && !w->samples;) {
    const unsigned char *chunk = p + at + 8;
    size_t left = size - at - 8, length = four(p + at + 4);
    if (length > left) length = left;
    if (!memcmp(p + at, "fmt ", 4) && length >= 16) {
      w->format = two(chunk);
      w->channels = two(chunk + 2);
      w->rate = four(chunk + 4);
      w->bits = two(chunk + 14);
      if (w->format == EXTENSIBLE && length >= 26) w->format = two(chunk + 24);
    } else if (!memcmp(p + at, "data", 4)) {
      w->samples = chunk;
      w->size = length;
    }
    at += 8 + length + (length & 1);
  }
  if (!w->samples || !w->channels || w->channels > MAX_CHANNELS || !w->rate || w->rate > INT32_MAX)
    return cn_err_set(CN_ERR_IO, "%s: lacks a format or samples", path);
  bool ints = w->format == PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32);
  bool floats = w->format == FLOATS && (w->bits == 32 || w->bits == 64);
  if (!ints && !floats)
    return cn_err_set(CN_ERR_UNSUPPORTED,
                      "%s: samples of kind %u with %u bits; cairn reads whole numbers of 8 to 32 bits and floats", path,
                      w->format, w->bits);
  return CN_OK;
}

/* One sample in [-1, 1). */
static float value(const unsigned char *p, const wav *w)
{
  if (w->format == FLOATS && w->bits == 32) {
    uint32_t word = four(p);
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
  }
  if (w->format == FLOATS) {
    uint64_t word = (uint64_t)four(p + 4) << 32 | four(p);
    double d;
    memcpy(&d, &word, sizeof d);
    return (float)d;
  }
  if (w->bits == 8) return ((float)p[0] - 128) / 128;
  if (w->bits == 16) return (float)(int16_t)two(p) / 32768;
  if (w->bits == 24) return (float)((int32_t)(two(p) << 8 | (unsigned)p[2] << 24) >> 8) / 8388608;
  return (float)((double)(int32_t)four(p) / 2147483648.0);
}

cn_tensor *cn_wav_load(const char *path, int *rate)
{
  cn_mapping m;
  wav w;
  if (cn_err() || cn_map_open(&m, path)) return NULL;
  cn_tensor *t = NULL;
  if (!parse(&w, m.data, m.size, path)) {
    size_t bytes = w.bits / 8, frame = bytes * w.channels;
    int64_t n = (int64_t)(w.size / frame), channels = (int64_t)w.channels;
    t = cn_empty(CN_SHAPE(channels, n), .dtype = CN_F32, .device = CN_CPU);
    float *to = t && n ? cn_data(t) : NULL;
    for (int64_t i = 0; to && i < n; i++) {
      const unsigned char *from = w.samples + (size_t)i * frame;
      for (int64_t c = 0; c < channels; c++) to[c * n + i] = value(from + (size_t)c * bytes, &w);
    }
    if (rate) *rate = (int)w.rate;
  }
  cn_map_close(&m);
  return t;
}

static void put_two(unsigned char *p, unsigned v)
{
  p[0] = v & 255;
  p[1] = v >> 8 & 255;
}

static void put_four(unsigned char *p, uint64_t v)
{
  put_two(p, (unsigned)(v & 0xFFFF));
  put_two(p + 2, (unsigned)(v >> 16 & 0xFFFF));
}

static int put_samples(cn_writer *w, const float *from, int64_t channels, int64_t n)
{
  int status = CN_OK;
  unsigned char buffer[2048];
  size_t used = 0;
  for (int64_t i = 0; i < n * channels && !status; i++) {
    double v = rint((double)from[i % channels * n + i / channels] * 32768);
    int level = isnan(v) ? 0 : v >= 32767 ? 32767 : v > -32768 ? (int)v : -32768;
    put_two(buffer + used, (unsigned)level & 0xFFFF);
    used += 2;
    if (used == sizeof buffer || i + 1 == n * channels) {
      status = cn_writer_put(w, buffer, used);
      used = 0;
    }
  }
  return status;
}

int cn_wav_save(const char *path, cn_tensor *sound, int rate)
{
  if (cn_err()) return cn_err();
  int64_t channels = cn_ndim(sound) == 2 ? cn_size(sound, 0) : cn_ndim(sound) == 1 ? 1 : 0;
  int64_t n = channels ? cn_size(sound, -1) : 0, bytes = 2 * channels * n;
  if (channels < 1 || channels > MAX_CHANNELS || rate < 1 || bytes > UINT32_MAX - 64)
    return cn_err_set(CN_ERR_SHAPE, "%s: a WAV file holds (channels, samples) below 4 GB at a positive rate", path);
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_contiguous(cn_cast(cn_to_device(sound, CN_CPU), CN_F32));
  const float *from = t ? cn_data(t) : NULL;
  cn_writer *w = from || (t && !n) ? cn_writer_open(path) : NULL;
  if (w) {
    unsigned char head[44] = "RIFF----WAVEfmt ----------------------data";
    put_four(head + 4, (uint64_t)(36 + bytes));
    put_four(head + 16, 16);
    put_two(head + 20, PCM);
    put_two(head + 22, (unsigned)channels);
    put_four(head + 24, (uint64_t)rate);
    put_four(head + 28, (uint64_t)rate * 2 * (uint64_t)channels);
    put_two(head + 32, 2 * (unsigned)channels);
    put_two(head + 34, 16);
    memcpy(head + 36, "data", 4);
    put_four(head + 40, (uint64_t)bytes);
    int status = cn_writer_put(w, head, sizeof head);
    if (!status) put_samples(w, from, channels, n);
    cn_writer_commit(w);
  }
  cn_scope_end(s);
  return cn_err();
}
