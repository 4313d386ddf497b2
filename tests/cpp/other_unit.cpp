/* other_unit.cpp: a second translation unit of test_units.cpp, with the same headers. */
#include "check.hpp"

using namespace cn;

struct Doubler : Module {
  Tensor forward(const Tensor &x) { return x * 2; }
};

AnyModule doubler();
AnyModule doubler() { return Doubler(); }

TEST(other_unit)
{
  CHECK(sum(ones({2}), SumOptions().dim(0)).item<float>() == 2);
  try {
    ones({2}) + ones({3});
  } catch (const Error &e) {
    CHECK(e.status() == CN_ERR_SHAPE);
  }
}
