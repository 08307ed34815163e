#include "libdistill/nn/key_value_cache.h"

#include <torch/types.h>

#include <algorithm>

#include "libdistill/nn/attention.h"
#include "libdistill/nn/token_layout.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr int64_t kFirstCapacity = 64;

}  // namespace

KeyValueCache::Pass KeyValueCache::Begin(const std::vector<std::vector<int32_t>>& tokens, torch::Device device) {
  const bool is_first = next_lengths_.empty();
  if (is_first) lengths_.assign(tokens.size(), 0);
  TORCH_CHECK_VALUE(!tokens.empty() && tokens.size() == lengths_.size(), "tokens for ", tokens.size(), " rows of ",
                    lengths_.size());
  next_lengths_ = lengths_;
  for (size_t row = 0; row < tokens.size(); ++row) {
    TORCH_CHECK_VALUE(!tokens[row].empty(), "no token for row ", row);
    next_lengths_[row] += static_cast<int64_t>(tokens[row].size());
  }
  Pass pass;
  pass.longest = *std::max_element(next_lengths_.begin(), next_lengths_.end());
  if (capacity_ < pass.longest) capacity_ = std::max({kFirstCapacity, pass.longest, 2 * capacity_});
  if (is_first) {
    LayOutFirst(tokens, device, pass);
  } else {
    LayOutLater(tokens, device, pass);
  }
  return pass;
}

// As in training: rows of about the same length lie together, and attention runs within them without a mask.
void KeyValueCache::LayOutFirst(const std::vector<std::vector<int32_t>>& tokens, torch::Device device,
                                Pass& pass) const {
  const auto rows = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> ids, last;
  TokenInput input;
  for (int64_t row = 0; row < rows; ++row) {
    ids.insert(ids.end(), tokens[row].begin(), tokens[row].end());
    last.push_back(static_cast<int64_t>(ids.size()) - 1);
    ids.resize((row + 1) * pass.longest, 0);
    input.document_starts.push_back({0, next_lengths_[row]});
  }
  input.input_ids = ToDevice(ids, device).view({rows, pass.longest});
  pass.layout = LayoutOf(input);
  pass.positions = pass.layout->positions;
  pass.documents = SpansOf(*pass.layout);
  pass.ids = input.input_ids.flatten();
  pass.last = ToDevice(last, device);
  Tensor row_of = torch::arange(rows, pass.ids.options()).repeat_interleave(pass.longest);
  if (pass.layout->source.defined()) {
    pass.ids = pass.ids.index_select(0, pass.layout->source);
    pass.last = pass.layout->target.index_select(0, pass.last);
    row_of = row_of.index_select(0, pass.layout->source);
  }
  pass.slots = SlotsOf(row_of, pass.positions);
}

void KeyValueCache::LayOutLater(const std::vector<std::vector<int32_t>>& tokens, torch::Device device,
                                Pass& pass) const {
  const auto rows = static_cast<int64_t>(tokens.size());
  for (const std::vector<int32_t>& row : tokens) pass.most = std::max(pass.most, static_cast<int64_t>(row.size()));
  std::vector<int64_t> ids, positions, row_of, places, last;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < tokens[row].size(); ++i) {
      ids.push_back(tokens[row][i]);
      positions.push_back(lengths_[row] + static_cast<int64_t>(i));
      row_of.push_back(row);
      places.push_back(row * pass.most + static_cast<int64_t>(i));
    }
    last.push_back(static_cast<int64_t>(ids.size()) - 1);
    pass.documents.push_back({static_cast<int64_t>(tokens[row].size()), next_lengths_[row]});
  }
  const auto count = static_cast<int64_t>(ids.size());
  // On the way to a device these are one message.
  for (const std::vector<int64_t>& part : {positions, row_of, places, last}) {
    ids.insert(ids.end(), part.begin(), part.end());
  }
  const std::vector<Tensor> parts = at::split_with_sizes(ToDevice(ids, device), {count, count, count, count, rows});
  pass.ids = parts[0], pass.positions = parts[1], pass.slots = SlotsOf(parts[2], parts[1]);
  if (count < rows * pass.most) pass.places = parts[3];
  if (count > rows) pass.last = parts[4];
  const bool are_alike = std::count(lengths_.begin(), lengths_.end(), lengths_[0]) == rows;
  if (are_alike && pass.most == 1) return;
  // Queries of padding see the first key, and nobody looks at what they get.
  const Tensor limits =
      pass.places.defined()
          ? at::zeros({rows * pass.most}, pass.ids.options()).index_copy_(0, pass.places, pass.positions)
          : pass.positions;
  pass.limits = limits.view({rows, 1, pass.most, 1});
}

// bool [B, 1, T, S]: the keys that each query sees; undefined where each sees all.
Tensor KeyValueCache::SeenOf(const Pass& pass, int64_t window) {
  const bool slides = window > 0 && window < pass.longest;
  if (!pass.limits.defined() && !slides) return {};
  const Tensor keys = torch::arange(pass.longest, pass.ids.options());
  if (!pass.limits.defined()) return keys.ge(pass.longest - window).view({1, 1, 1, -1});
  const Tensor seen = keys <= pass.limits;
  return slides ? seen.logical_and(keys > pass.limits - window) : seen;
}

Tensor KeyValueCache::SlotsOf(const Tensor& rows, const Tensor& positions) const {
  const Tensor heads = torch::arange(heads_, rows.options());
  return ((rows * heads_).unsqueeze(1) + heads).mul_(capacity_).add_(positions.unsqueeze(1)).flatten();
}

// In a buffer at least twice as large where it does not fit. It holds zeros where nobody wrote: what a mask hides is
// multiplied by zero, and must be finite.
void KeyValueCache::Store(const Tensor& slots, const Tensor& added, Tensor& buffer) const {
  const auto rows = static_cast<int64_t>(lengths_.size());
  if (!buffer.defined() || buffer.size(2) < capacity_) {
    const Tensor larger = at::zeros({rows, heads_, capacity_, added.size(2)}, added.options());
    if (buffer.defined()) larger.narrow(2, 0, buffer.size(2)).copy_(buffer.narrow(0, 0, rows));
    buffer = larger;
  }
  buffer.view({-1, added.size(2)}).index_copy_(0, slots, added.reshape({-1, added.size(2)}));
}

Tensor KeyValueCache::Attend(int64_t layer, const Pass& pass, const Tensor& query, const Tensor& keys,
                             const Tensor& values, const AttentionTraits& traits) {
  Layer& target = layers_.at(layer);
  Store(pass.slots, keys, target.keys);
  Store(pass.slots, values, target.values);
  if (pass.layout != nullptr) {
    return DocumentAttention(query, keys, values, *pass.layout, /*is_causal=*/true, /*dropout=*/0, traits);
  }
  const auto rows = static_cast<int64_t>(lengths_.size());
  const auto filled = [&](const Tensor& buffer) {  // [B, K, S, D]
    return buffer.narrow(0, 0, rows).narrow(2, 0, pass.longest);
  };
  Tensor padded = query;
  if (pass.places.defined()) {
    padded = at::zeros({rows * pass.most, query.size(1), query.size(2)}, query.options());
    padded.index_copy_(0, pass.places, query);
  }
  const Tensor attended =
      CachedAttention(padded.view({rows, pass.most, query.size(1), query.size(2)}).transpose(1, 2), filled(target.keys),
                      filled(target.values), SeenOf(pass, traits.window), traits);
  const Tensor flat = attended.transpose(1, 2).reshape({rows * pass.most, -1});
  return pass.places.defined() ? flat.index_select(0, pass.places) : flat;
}

void KeyValueCache::Advance() { lengths_ = next_lengths_; }

void KeyValueCache::DropRow(int64_t row) {
  const auto last = static_cast<int64_t>(lengths_.size()) - 1;
  for (const Layer& layer : layers_) {
    for (const Tensor& buffer : {layer.keys, layer.values}) {
      // With what lies behind its tokens: of the row that ended nothing is left, not even a number that is none.
      if (row < last && buffer.defined()) buffer.select(0, row).copy_(buffer.select(0, last));
    }
  }
  lengths_.at(row) = lengths_[last];
  lengths_.pop_back();
}

}  // namespace distill
