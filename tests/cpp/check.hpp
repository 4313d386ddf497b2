/* check.hpp: as much of a test framework as these programs need.
 *
 * TEST(name) { CHECK(...); CHECK_THROWS(status, expression); } in any file; one file says TEST_MAIN. The last line
 * printed counts tests as tools/run-tests reads it. */
#ifndef CAIRN_TESTS_CPP_CHECK_HPP
#define CAIRN_TESTS_CPP_CHECK_HPP

#include <cairn/cairn.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace check {

struct Test {
  const char *name;
  void (*run)();
};

inline std::vector<Test> &tests()
{
  static std::vector<Test> all;
  return all;
}

inline int &failures()
{
  static int n = 0;
  return n;
}

inline void that(bool good, const char *text, const char *file, int line)
{
  if (good) return;
  failures()++;
  std::printf("%s:%d: %s\n", file, line, text);
}

template <class F> void throws(int status, F &&body, const char *text, const char *file, int line)
{
  bool good = false;
  try {
    body();
  } catch (const cn::Error &e) {
    good = e.status() == status && cn_err() == 0 && *e.what();
    if (!good) std::printf("status %d: %s\n", e.status(), e.what());
  }
  that(good, text, file, line);
}

inline bool near(double a, double b, double tolerance = 1e-5) { return std::fabs(a - b) <= tolerance; }

inline int run_all()
{
  int passed = 0, failed = 0;
  for (const Test &test : tests()) {
    const int before = failures();
    try {
      test.run();
    } catch (const std::exception &e) {
      failures()++;
      std::printf("%s: threw %s\n", test.name, e.what());
    }
    const bool good = failures() == before;
    std::printf("%s  %s\n", good ? "ok  " : "FAIL", test.name);
    (good ? passed : failed)++;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace check

#define TEST(name)                                                                         \
  static void test_##name();                                                               \
  static const bool listed_##name = (check::tests().push_back({#name, test_##name}), true); \
  static void test_##name()
#define CHECK(condition) check::that(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
#define CHECK_THROWS(status, expression) \
  check::throws(status, [&] { static_cast<void>(expression); }, #expression, __FILE__, __LINE__)
#define TEST_MAIN \
  int main() { return check::run_all(); }

#endif
