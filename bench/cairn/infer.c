/* infer.c: cairn's side of inference by whole networks: the zoo's, and the small GPT of networks.h, each as it is and
 * compiled, to the bit and fast; `resnet18_bf16_infer_b1` and `_b8` with everything in bfloat16.
 *
 * Place in the flow: peers are torch_infer.py (as it is, torch.compile) and ort_infer.py (onnxruntime). Invariant:
 * parameters start as networks.h says, so that all sides answer alike; inference mode is on around a call.
 */
#include "networks.h"

#include <cairn/compile.h>
#include <cairn/zoo.h>

static cn_module *net;
static cn_compiled *programs[2]; /* its forward pass: to the bit, and rounded otherwise; NULL: not captured yet */
static cn_tensor *x;

static void ready(cn_module *made, cn_tensor *input)
{
  for (int i = 0; i < 2; i++) {
    cn_compiled_free(programs[i]);
    programs[i] = NULL;
  }
  cn_module_release(net);
  net = made;
  if (!net) return;
  fill_parameters(net);
  cn_module_train(net, false);
  cn_set(&x, input);
}

static cn_tensor *images(void) { return side_fill(CN_SHAPE(now->n[0], 3, 224, 224), 1, 1.7f); }

static void prepare_resnet18(void) { ready(cn_zoo("resnet18"), images()); }
static void prepare_resnet50(void) { ready(cn_zoo("resnet50"), images()); }
static void prepare_mobilenet(void) { ready(cn_zoo("mobilenet_v2"), images()); }
static void prepare_vit(void) { ready(cn_zoo("vit_b_16"), images()); }
static void prepare_minilm(void) { ready(cn_zoo("minilm"), cn_reshape(labels(SEQ, 30522), CN_SHAPE(1, SEQ))); }
static void prepare_gpt(void) { ready(gpt(), cn_reshape(labels(SEQ, VOCAB), CN_SHAPE(1, SEQ))); }

static void prepare_half(void)
{
  prepare_resnet18();
  cn_module_to(net, CN_CPU, CN_BF16);
  cn_set(&x, cn_cast(x, CN_BF16));
}

static void infer(void)
{
  int saved = cn_inference_begin();
  result[0] = cn_forward(net, x);
  cn_inference_end(saved);
}

static int captured(cn_compile_call *k)
{
  k->outputs[0] = cn_forward(net, k->inputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static void run(bool fast)
{
  cn_compiled **program = &programs[fast];
  int saved = cn_inference_begin();
  if (!*program) *program = cn_compile(captured, .fullgraph = true, .name = now->name, .fast = fast);
  cn_compiled_call(*program, &(cn_compile_call){.inputs = &x, .ninputs = 1, .outputs = result, .noutputs = 1});
  cn_inference_end(saved);
}
static void compiled(void) { run(false); }
static void compiled_fast(void) { run(true); }

#define ALL(name, unit, amount, prepare, n)                                 \
  {name, "", unit, amount, prepare, infer, {n}, false},                     \
    {name, "compiled", unit, amount, prepare, compiled, {n}, false},        \
    {name, "compiled_fast", unit, amount, prepare, compiled_fast, {n}, false}

/* networks.py has the same table. */
static const struct side_case works[] = {
  ALL("resnet18_infer_b1", "image", 1, prepare_resnet18, 1),
  ALL("resnet18_infer_b8", "image", 8, prepare_resnet18, 8),
  ALL("resnet50_infer_b1", "image", 1, prepare_resnet50, 1),
  ALL("resnet50_infer_b8", "image", 8, prepare_resnet50, 8),
  ALL("mobilenet_v2_infer_b1", "image", 1, prepare_mobilenet, 1),
  ALL("minilm_infer", "token", SEQ, prepare_minilm, 0),
  ALL("vit_b16_infer", "image", 1, prepare_vit, 1),
  ALL("gpt_infer", "token", SEQ, prepare_gpt, 0),
  {"resnet18_bf16_infer_b1", "", "image", 1, prepare_half, infer, {1}, false},
  {"resnet18_bf16_infer_b8", "", "image", 8, prepare_half, infer, {8}, false},
};

int main(int argc, char **argv) { return side_serve(argc, argv, works, sizeof works / sizeof *works); }
