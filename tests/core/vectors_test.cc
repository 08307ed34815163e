#include "libdistill/core/vectors.h"

#include <cstdlib>
#include <string>

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("this CPU is no higher a kind than the one that is asked for") {
  const char* asked = std::getenv("DISTILL_CPU");
  const std::string kind = asked == nullptr ? "avx512_bf16" : asked;
  const Vectors vectors = VectorsOfThisCpu();
  if (kind == "plain") CHECK(vectors == Vectors::kPlain);
  if (kind == "avx2") CHECK(vectors <= Vectors::kAvx2);
  if (kind != "avx512_bf16") CHECK(!CpuMultipliesBf16());
  if (vectors != Vectors::kAvx512) CHECK(!CpuMultipliesBf16());
}

}  // namespace
}  // namespace distill
