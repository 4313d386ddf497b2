/* test_units.cpp: all headers in two translation units of one program (the other: other_unit.cpp), and beside C's. */
#include "check.hpp"

#include <cairn/cairn.h>

cn::AnyModule doubler();

/* Another class of the same name as one of the other unit: C tells them apart. */
namespace here {
struct Doubler : cn::Module {
  cn::Tensor forward(const cn::Tensor &x) { return x * 20; }
};
}  // namespace here

TEST(modules_cross_units)
{
  cn::Sequential both(doubler(), here::Doubler());
  CHECK(both(cn::ones({1})).item<float>() == 40 && both[0].name() == both[1].name());
}

TEST(c_and_cpp_together)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *made = cn_add_with(cn_num(1), cn_num(2), nullptr);
  cn::Tensor kept = cn::Tensor::keep(made);
  cn_scope_end(scope);
  CHECK(kept.item() == 3);
  cn_tensor *raw = (kept + 1).release();
  CHECK(cn_item(raw) == 4);
  cn_release(raw);
  cn_err_set(CN_ERR_VALUE, "left over by C"); /* an op's call begins afresh; others throw what is pending */
  CHECK_THROWS(CN_ERR_VALUE, kept.item());
  CHECK(cn_err() == 0);
}

TEST_MAIN
