"""scripts/module_sizes: functions are as long as they are, and docs/architecture.md has the place that it writes to."""
import importlib.machinery
import importlib.util
import os

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SAMPLE = r'''
#include <string>
#define TWICE(x) \
  { x; x; }

namespace a::b {
namespace {

constexpr int kTable[] = {
    1,
    2,
};
const auto lambda = [](int x) {
  return x;
};
enum class E { kOne, kTwo };

int Declared(int x,
             int y);

template <typename T, typename = std::enable_if_t<true>>
T Four(T x) {  // } in a comment
  return x;
}

}  // namespace

class C : public D<int> {
 public:
  C(int x, std::string y)
      : x_{x}, y_(y), z_{1, 2} {
    if (x) {
      Call([&] { return '}'; });
    }
  }
  int operator()(int x = 3) const { return x; }
  bool operator==(const C&) const = default;

 private:
  int x_{0};
};

std::string C::Text() const {
  const std::string text = R"(
  } not the end
  )";
  return "}" + text;
}

__global__ __launch_bounds__(256) void Kernel(float* x) {
  x[0] = 1;
}

}  // namespace a::b

TEST_CASE("a } in a name") {
  struct Local { int x; };
}
'''


def load():
    loader = importlib.machinery.SourceFileLoader("module_sizes", f"{SOURCE}/scripts/module_sizes")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("module_sizes", loader))
    loader.exec_module(module)
    return module


def main():
    sizes = load()
    found = list(sizes.functions("x.cc", SAMPLE))
    assert found == [("Four", 4), ("C", 6), ("operator()", 1), ("C::Text", 6), ("Kernel", 3), ("TEST_CASE", 3)], found
    assert list(sizes.functions("x.py", "def f():\n    return (\n        1)\n")) == [("f", 3)]
    measured = sizes.measure({"libdistill/a/x.cc": SAMPLE, "libdistill/a/y.h": "\n" * 99, "bench/z.py": "x = 1\n"})
    assert measured == {"a": (2, SAMPLE.count("\n") + 99, "99 y.h", "6 C"), "bench": (1, 1, "1 z.py", "-")}, measured
    with open(sizes.PAGE, encoding="utf-8") as file:
        page = file.read()
    assert page.count(sizes.BEGIN) == 1 and page.count(sizes.END) == 1 and page.index(sizes.BEGIN) < page.index(sizes.END)
    print(f"{len(found)} functions, each as long as it is")


main()
