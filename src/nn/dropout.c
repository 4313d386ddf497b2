/* dropout.c: layers that drop elements or channels at random in training: rows that name an op (one_op.h). */
#include "one_op.h"

static int dropout_init(cn_module *m, const cn_value *a)
{
  if (a[0].u.f >= 0 && a[0].u.f <= 1) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: p is a probability, between 0 and 1", m->cls->name);
}

/* In evaluation the input itself is given back, so that nothing is copied. */
static cn_tensor *dropout_apply(cn_module *m, cn_tensor *x)
{
  return cn_module_training(m) ? cni_one_op_apply(m, x) : x;
}

#define ROW .init = dropout_init, .apply = dropout_apply, .print = cni_one_op_print

/* clang-format off */
static const cni_one_op dropout = {
  {CN_MODULE_CLASS, .name = "Dropout", .sig = "Dropout(float p=0.5, bool inplace=False) -> Module ; dropout",
   .doc = "In training each element is zero with probability p, else divided by 1 - p.", ROW},
  "dropout", "0t", "p inplace"};
static const cni_one_op dropout1d = {
  {CN_MODULE_CLASS, .name = "Dropout1d", .sig = "Dropout1d(float p=0.5, bool inplace=False) -> Module ; dropout1d",
   .doc = "Dropout of whole channels of signals (N, C, L) or (C, L).", ROW},
  "dropout1d", "0t", "p inplace"};
static const cni_one_op dropout2d = {
  {CN_MODULE_CLASS, .name = "Dropout2d", .sig = "Dropout2d(float p=0.5, bool inplace=False) -> Module ; dropout2d",
   .doc = "Dropout of whole channels of images (N, C, H, W) or (C, H, W).", ROW},
  "dropout2d", "0t", "p inplace"};
static const cni_one_op dropout3d = {
  {CN_MODULE_CLASS, .name = "Dropout3d", .sig = "Dropout3d(float p=0.5, bool inplace=False) -> Module ; dropout3d",
   .doc = "Dropout of whole channels of volumes (N, C, D, H, W) or (C, D, H, W).", ROW},
  "dropout3d", "0t", "p inplace"};
static const cni_one_op alpha_dropout = {
  {CN_MODULE_CLASS, .name = "AlphaDropout",
   .sig = "AlphaDropout(float p=0.5, bool inplace=False) -> Module ; alpha_dropout",
   .doc = "In training each element is at SELU's lower limit with probability p; all are moved and scaled so that "
          "mean and variance stay.", ROW},
  "alpha_dropout", "0t", "p inplace"};
static const cni_one_op feature_alpha_dropout = {
  {CN_MODULE_CLASS, .name = "FeatureAlphaDropout",
   .sig = "FeatureAlphaDropout(float p=0.5, bool inplace=False) -> Module ; feature_alpha_dropout",
   .doc = "AlphaDropout of whole channels.", ROW},
  "feature_alpha_dropout", "0t", "p inplace"};
/* clang-format on */

const cn_module_class *const cni_nn_dropout_classes[] = {
  &dropout.cls, &dropout1d.cls, &dropout2d.cls, &dropout3d.cls, &alpha_dropout.cls, &feature_alpha_dropout.cls, NULL};
