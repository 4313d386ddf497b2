/* onnx.h: ONNX models that a command is given, and what goes into them: files, images, random numbers. */
#ifndef CAIRN_COMMAND_ONNX_H
#define CAIRN_COMMAND_ONNX_H

#include <cairn/cairn.h>
#include <cairn/compile.h>

enum { ONNX_MOST = 256 };

/* What the options say that all of these commands take. */
typedef struct onnx_options {
  const char *inputs[ONNX_MOST]; /* of --input: NAME=FILE or NAME=SIZES */
  const char *sizes[ONNX_MOST];  /* of --size: SYMBOL=N */
  int ninputs, nsizes;
  const char *device, *threads, *mean, *std;
  bool random; /* inputs that are not given are random numbers; otherwise they are missing */
} onnx_options;

/* The options as `cairn help` explains them. */
#define ONNX_HELP_INPUT                                                                                              \
  "  --input NAME=FILE   an input: .npy, a TensorProto (.pb), lines of text (.txt), or a PNG or JPEG image;\n"       \
  "                      NAME= may be left out where there is one input\n"
#define ONNX_HELP_RANDOM                                                                                             \
  "  --input NAME=SIZES  random numbers of these sizes: 1,3,224,224. Inputs that are not given are random, too:\n"   \
  "                      floats normal, whole numbers 0 or 1\n"                                                      \
  "  --size SYMBOL=N     a size that the model has a name for; 1\n"
#define ONNX_HELP_IMAGE                                                                                              \
  "  --mean M --std S    of images: (x - M) / S, x in [0, 1]; one number, or one for each channel\n"
#define ONNX_HELP_WHERE                                                                                              \
  "  --device D          cpu, cuda, cuda:1\n"                                                                        \
  "  --threads N         so many threads; all\n"

/* A model that runs. */
typedef struct onnx_subject {
  cn_onnx *model;
  cn_onnx_feed feeds[ONNX_MOST]; /* names are the model's; values are owned */
  size_t nfeeds;
  cn_compiled *compiled; /* NULL: it runs as it is */
  cn_onnx_value **made;  /* of the last run, cn_onnx_outputs of them, owned */
  char why[400];         /* it was to be compiled, and cannot be, for this reason; compiled is NULL then */
} onnx_subject;

/* Takes what can stand there more than once out of argv. false: it has said what is wrong. */
bool onnx_take_options(onnx_options *o, int *argc, char **argv);
/* Loads the model, and its inputs as the options say. 0 or a negative status; onnx_close in any case. */
int onnx_open(onnx_subject *s, const char *path, const onnx_options *o, bool compiled);
/* ... and the inputs of another one, by their names, or in order where they have others. */
int onnx_open_beside(onnx_subject *s, const char *path, const onnx_subject *other, bool compiled);
/* Sets the threads and the default device. 0 or a negative status. */
int onnx_place(const onnx_options *o);
int onnx_run(onnx_subject *s); /* into made, as the last results, which go */
void onnx_close(onnx_subject *s);

/* "float32 [N, 3, 224, 224]"; returns text. */
const char *onnx_type(char *text, size_t size, const cn_onnx_info *info);

#endif
