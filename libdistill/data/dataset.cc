#include "libdistill/data/dataset.h"

#include <utility>

namespace distill {
namespace {

class MemoryDataset : public TokenDataset {
 public:
  explicit MemoryDataset(std::vector<TokenSample> samples) : samples_(std::move(samples)) {}
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const TokenSample& sample(int64_t index) const override { return samples_[index]; }

 private:
  std::vector<TokenSample> samples_;
};

}  // namespace

std::shared_ptr<TokenDataset> MakeTokenDataset(std::vector<TokenSample> samples) {
  return std::make_shared<MemoryDataset>(std::move(samples));
}

}  // namespace distill
