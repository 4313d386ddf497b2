/* pad.c: layers that put a border around signals, images and volumes. One row for each kind and number of dimensions.
 *
 * Place in the flow: rows of classes over the op pad. Invariant: the class stands first in its row, so that m->cls of
 * its modules is the row. */
#include "one_op.h"

typedef struct pad_class {
  cn_module_class cls;
  const char *mode; /* of the op */
} pad_class;

enum { PADDING, VALUE };

static cn_tensor *pad_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_pad(x, a[PADDING].u.is, (size_t)a[PADDING].n, .mode = ((const pad_class *)m->cls)->mode);
}

static cn_tensor *constant_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return cn_pad(x, a[PADDING].u.is, (size_t)a[PADDING].n, .value = cni_option(a[VALUE].u.f));
}

static void pad_print(const cn_module *m, cn_text *t) { cni_print_named(m, t, "=padding"); }
static void constant_print(const cn_module *m, cn_text *t) { cni_print_named(m, t, "padding value"); }

#define ROW .apply = pad_apply, .print = pad_print
#define CONSTANT .apply = constant_apply, .print = constant_print

/* clang-format off */
static const pad_class constant1d = {
  {CN_MODULE_CLASS, .name = "ConstantPad1d",
   .sig = "ConstantPad1d(int[2] padding, float value) -> Module ; constant_pad1d",
   .doc = "A border of value around signals: padding holds the sizes before and behind; negative ones cut.",
   CONSTANT}, NULL};
static const pad_class constant2d = {
  {CN_MODULE_CLASS, .name = "ConstantPad2d",
   .sig = "ConstantPad2d(int[4] padding, float value) -> Module ; constant_pad2d",
   .doc = "A border of value around images: left, right, top, bottom.", CONSTANT}, NULL};
static const pad_class constant3d = {
  {CN_MODULE_CLASS, .name = "ConstantPad3d",
   .sig = "ConstantPad3d(int[6] padding, float value) -> Module ; constant_pad3d",
   .doc = "A border of value around volumes: left, right, top, bottom, front, back.", CONSTANT}, NULL};
static const pad_class zero1d = {
  {CN_MODULE_CLASS, .name = "ZeroPad1d", .sig = "ZeroPad1d(int[2] padding) -> Module ; zero_pad1d",
   .doc = "A border of zeros around signals: sizes before and behind; negative ones cut.", ROW}, "constant"};
static const pad_class zero2d = {
  {CN_MODULE_CLASS, .name = "ZeroPad2d", .sig = "ZeroPad2d(int[4] padding) -> Module ; zero_pad2d",
   .doc = "A border of zeros around images: left, right, top, bottom.", ROW}, "constant"};
static const pad_class zero3d = {
  {CN_MODULE_CLASS, .name = "ZeroPad3d", .sig = "ZeroPad3d(int[6] padding) -> Module ; zero_pad3d",
   .doc = "A border of zeros around volumes: left, right, top, bottom, front, back.", ROW}, "constant"};
static const pad_class reflection1d = {
  {CN_MODULE_CLASS, .name = "ReflectionPad1d", .sig = "ReflectionPad1d(int[2] padding) -> Module ; reflection_pad1d",
   .doc = "A border that mirrors signals (N, C, L) or (C, L) without repeating the edge.", ROW}, "reflect"};
static const pad_class reflection2d = {
  {CN_MODULE_CLASS, .name = "ReflectionPad2d", .sig = "ReflectionPad2d(int[4] padding) -> Module ; reflection_pad2d",
   .doc = "A border that mirrors images (N, C, H, W) or (C, H, W) without repeating the edge.", ROW}, "reflect"};
static const pad_class reflection3d = {
  {CN_MODULE_CLASS, .name = "ReflectionPad3d", .sig = "ReflectionPad3d(int[6] padding) -> Module ; reflection_pad3d",
   .doc = "A border that mirrors volumes (N, C, D, H, W) or (C, D, H, W) without repeating the edge.",
   ROW}, "reflect"};
static const pad_class replication1d = {
  {CN_MODULE_CLASS, .name = "ReplicationPad1d", .sig = "ReplicationPad1d(int[2] padding) -> Module ; replication_pad1d",
   .doc = "A border that repeats the edge of signals (N, C, L) or (C, L).", ROW}, "replicate"};
static const pad_class replication2d = {
  {CN_MODULE_CLASS, .name = "ReplicationPad2d", .sig = "ReplicationPad2d(int[4] padding) -> Module ; replication_pad2d",
   .doc = "A border that repeats the edge of images (N, C, H, W) or (C, H, W).", ROW}, "replicate"};
static const pad_class replication3d = {
  {CN_MODULE_CLASS, .name = "ReplicationPad3d", .sig = "ReplicationPad3d(int[6] padding) -> Module ; replication_pad3d",
   .doc = "A border that repeats the edge of volumes (N, C, D, H, W) or (C, D, H, W).", ROW}, "replicate"};
static const pad_class circular1d = {
  {CN_MODULE_CLASS, .name = "CircularPad1d", .sig = "CircularPad1d(int[2] padding) -> Module ; circular_pad1d",
   .doc = "A border from the other end of signals (N, C, L) or (C, L).", ROW}, "circular"};
static const pad_class circular2d = {
  {CN_MODULE_CLASS, .name = "CircularPad2d", .sig = "CircularPad2d(int[4] padding) -> Module ; circular_pad2d",
   .doc = "A border from the other end of images (N, C, H, W) or (C, H, W).", ROW}, "circular"};
static const pad_class circular3d = {
  {CN_MODULE_CLASS, .name = "CircularPad3d", .sig = "CircularPad3d(int[6] padding) -> Module ; circular_pad3d",
   .doc = "A border from the other end of volumes (N, C, D, H, W) or (C, D, H, W).", ROW}, "circular"};
/* clang-format on */

#define CLASS(row) &(row).cls
#define DIMS(name) CLASS(name##1d), CLASS(name##2d), CLASS(name##3d)

const cn_module_class *const cni_nn_pad_classes[] = {DIMS(constant),    DIMS(zero),     DIMS(reflection),
                                                     DIMS(replication), DIMS(circular), NULL};
