#include "libdistill/nn/tiled_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "libdistill/nn/attention_sweep.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/parallel.h"

// Shapes: B documents, A heads of each, N = B * A, K heads of keys and values, T tokens, D head size; a tile is G heads
// times Q queries and S keys. The A / K heads that share keys lie side by side: where a tile has whole matrices, they
// are further queries of one head.
namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of a tile's scores; with their gradients as much again. What a core's second cache holds.
constexpr int64_t kTileBytes = 384 << 10;
constexpr int64_t kLeastQueries = 64;

// Contiguous.
struct Operands {
  Tensor query;         // [N, T, D]
  Tensor keys, values;  // [B * K, T, D]
  int64_t heads;        // A

  int64_t all_heads() const { return query.size(0); }
  int64_t tokens() const { return query.size(1); }
  int64_t shared() const { return keys.size(0) == 0 ? 1 : query.size(0) / keys.size(0); }  // A / K
};

// How many heads have whole matrices in a tile, and if that is one, how many of its queries.
struct Tile {
  int64_t heads, queries;

  // Heads that one thread does, since they have keys in common.
  int64_t group(const Operands& on) const { return std::max(heads, on.shared()); }
  // Whether the gradient of keys and values is that of one tile.
  bool is_only(const Operands& on) const { return queries == on.tokens() && heads >= on.shared(); }
};

Tile TileOf(const Operands& on) {
  const int64_t row = on.tokens() * on.query.element_size(), matrix = std::max<int64_t>(1, on.tokens() * row);
  const int64_t shared = on.shared(), groups = kTileBytes / (matrix * shared);
  if (groups > 0) return {std::min(groups * shared, on.all_heads()), on.tokens()};
  return {1, std::min(on.tokens(), std::max(kLeastQueries, kTileBytes / row))};
}

ScoreRows RowsOf(const Operands& on, const TiledAttention& options, const Tensor& log_sums) {
  const AttentionTraits& traits = options.traits;
  ScoreRows rows = {.dtype = *SweepType(on.query),
                    .tokens = on.tokens(),
                    .real_keys = options.real_keys.empty() ? nullptr : options.real_keys.data(),
                    .heads = on.heads,
                    .is_causal = options.is_causal,
                    .window = traits.window,
                    .scale = traits.scale > 0 ? static_cast<float>(traits.scale)
                                              : 1 / std::sqrt(static_cast<float>(on.query.size(2))),
                    .softcap = static_cast<float>(traits.softcap),
                    .sinks = traits.sinks.defined() ? traits.sinks.const_data_ptr<float>() : nullptr,
                    .log_sums = log_sums.mutable_data_ptr<float>()};
  if (options.dropping.has_value()) rows.dropping = *options.dropping;
  return rows;
}

// What one thread works in.
struct Workspace {
  Workspace(const Operands& on, const Tile& tile)
      : scores(at::empty({tile.heads, tile.queries, on.tokens()}, on.query.options())),
        scratch(at::empty({3, (on.tokens() + kDropBlock - 1) / kDropBlock * kDropBlock},
                          on.query.options().dtype(torch::kFloat32))) {}

  Tensor scores, scratch;
};

// The keys that the queries of a tile see.
void PlaceKeys(const Operands& on, ScoreRows& rows) {
  rows.first_key = 0;
  rows.keys = rows.is_causal ? rows.first_query + rows.queries : on.tokens();
  if (rows.window == 0) return;
  rows.first_key = std::max<int64_t>(0, rows.first_query + 1 - rows.window) / kDropBlock * kDropBlock;
  rows.keys -= rows.first_key;
}

// visit(heads, rows of the tile) for each tile of heads within [begin, end) groups, one after the other.
template <typename Visit>
void ForTiles(const Operands& on, const Tile& tile, int64_t begin, int64_t end, ScoreRows rows, const Visit& visit) {
  const int64_t last = std::min(end * tile.group(on), on.all_heads());
  for (int64_t head = begin * tile.group(on); head < last; head += tile.heads) {
    rows.first_head = head;
    for (rows.first_query = 0; rows.first_query < on.tokens(); rows.first_query += tile.queries) {
      rows.queries = std::min(tile.queries, on.tokens() - rows.first_query);
      PlaceKeys(on, rows);
      visit(std::min(tile.heads, last - head), rows);
    }
  }
}

// Heads of keys in a tile of G heads.
int64_t KeyHeads(int64_t heads, int64_t shared) { return std::max<int64_t>(1, heads / shared); }

Tensor KeysOf(const Tensor& x, const ScoreRows& rows, int64_t heads, int64_t shared) {
  return x.narrow(0, rows.first_head / shared, KeyHeads(heads, shared)).narrow(1, rows.first_key, rows.keys);
}
Tensor QueriesOf(const Tensor& x, const ScoreRows& rows, int64_t heads, int64_t shared) {
  return x.narrow(0, rows.first_head, heads)
      .narrow(1, rows.first_query, rows.queries)
      .view({KeyHeads(heads, shared), -1, x.size(2)});
}
// At the start of a workspace's memory.
Tensor ScoresIn(const Tensor& workspace, const ScoreRows& rows, int64_t heads, int64_t shared) {
  return workspace.flatten()
      .narrow(0, 0, heads * rows.queries * rows.keys)
      .view({KeyHeads(heads, shared), -1, rows.keys});
}

template <typename Body>
void ForGroups(const Operands& on, const Tile& tile, const Body& body) {
  const int64_t group = tile.group(on);
  ParallelFor((on.all_heads() + group - 1) / group, 1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard no_grad;  // a thread's own
    body(begin, end);
  });
}

// [N, T, D]; log_sums float32 [N, T].
Tensor Forward(const Operands& on, const TiledAttention& options, const Tensor& log_sums) {
  Tensor output = at::empty_like(on.query);
  const Tile tile = TileOf(on);
  const int64_t shared = on.shared();
  ForGroups(on, tile, [&](int64_t begin, int64_t end) {
    const Workspace space(on, tile);
    ForTiles(on, tile, begin, end, RowsOf(on, options, log_sums), [&](int64_t heads, ScoreRows rows) {
      Tensor scores = ScoresIn(space.scores, rows, heads, shared), attended = QueriesOf(output, rows, heads, shared);
      at::bmm_out(scores, QueriesOf(on.query, rows, heads, shared),
                  KeysOf(on.keys, rows, heads, shared).transpose(1, 2));
      rows.scores = scores.mutable_data_ptr();
      rows.scratch = space.scratch.mutable_data_ptr<float>();
      AttentionSweepsFor(rows.dtype).probabilities(rows, 0, heads * rows.queries);
      at::bmm_out(attended, scores, KeysOf(on.values, rows, heads, shared));
    });
  });
  return output;
}

// Adds a tile's part to the heads' sum, or is it where there is one tile.
void AddPart(Tensor sum, const Tensor& part_left, const Tensor& part_right, bool is_only) {
  if (is_only) {
    at::bmm_out(sum, part_left, part_right);
  } else {
    sum.add_(at::bmm(part_left, part_right));
  }
}

// Of query, keys and values.
variable_list Backward(const Operands& on, const TiledAttention& options, const Tensor& log_sums,
                       const Tensor& gradient) {
  const Tile tile = TileOf(on);
  const bool is_only = tile.is_only(on);
  const int64_t shared = on.shared();
  // What several tiles add up is float32.
  const auto sums_like = [&](const Tensor& x) {
    return is_only ? at::empty_like(x) : at::zeros_like(x, torch::kFloat32);
  };
  Tensor of_query = at::empty_like(on.query), of_keys = sums_like(on.keys), of_values = sums_like(on.values);
  ForGroups(on, tile, [&](int64_t begin, int64_t end) {
    const Workspace space(on, tile);
    const Tensor gradients = at::empty_like(space.scores);
    ForTiles(on, tile, begin, end, RowsOf(on, options, log_sums), [&](int64_t heads, ScoreRows rows) {
      const auto queries_of = [&](const Tensor& x) { return QueriesOf(x, rows, heads, shared); };
      const auto keys_of = [&](const Tensor& x) { return KeysOf(x, rows, heads, shared); };
      const Tensor query = queries_of(on.query), keys = keys_of(on.keys), incoming = queries_of(gradient);
      Tensor scores = ScoresIn(space.scores, rows, heads, shared), of_scores = ScoresIn(gradients, rows, heads, shared),
             of_queries = queries_of(of_query);
      at::bmm_out(scores, query, keys.transpose(1, 2));
      at::bmm_out(of_scores, incoming, keys_of(on.values).transpose(1, 2));
      rows.scores = scores.mutable_data_ptr();
      rows.gradients = of_scores.mutable_data_ptr();
      rows.scratch = space.scratch.mutable_data_ptr<float>();
      AttentionSweepsFor(rows.dtype).probabilities_again(rows, 0, heads * rows.queries);
      at::bmm_out(of_queries, of_scores, keys);
      AddPart(keys_of(of_keys), of_scores.transpose(1, 2), query, is_only);
      AddPart(keys_of(of_values), scores.transpose(1, 2), incoming, is_only);
    });
  });
  return {of_query, of_keys.to(on.keys.scalar_type()), of_values.to(on.values.scalar_type())};
}

// What the graph keeps beside tensors.
struct Kept : torch::CustomClassHolder {
  Kept(std::shared_ptr<const TiledAttention> options_in, int64_t heads_in, int64_t key_heads_in)
      : options(std::move(options_in)), heads(heads_in), key_heads(key_heads_in) {}
  const std::shared_ptr<const TiledAttention> options;
  const int64_t heads, key_heads;
};

struct TiledAttentionFunction : torch::autograd::Function<TiledAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& keys, const Tensor& values,
                        const std::shared_ptr<const TiledAttention>& options) {
    const auto flat = [&](const Tensor& x) { return x.contiguous().flatten(0, 1); };
    const Operands on = {flat(query), flat(keys), flat(values), query.size(1)};
    const Tensor log_sums = at::empty({on.all_heads(), on.tokens()}, query.options().dtype(torch::kFloat32));
    const Tensor output = Forward(on, *options, log_sums).view(query.sizes());
    context->save_for_backward({on.query, on.keys, on.values, log_sums});
    context->saved_data["options"] =
        c10::IValue::make_capsule(c10::make_intrusive<Kept>(options, query.size(1), keys.size(1)));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const variable_list saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["options"].toCapsule());
    const Operands on = {saved[0], saved[1], saved[2], kept->heads};
    variable_list gradients = Backward(on, *kept->options, saved[3], grads[0].contiguous().flatten(0, 1));
    const auto documents = [&](const Tensor& x, int64_t heads) {
      return x.view({grads[0].size(0), heads, x.size(1), x.size(2)});
    };
    gradients[0] = documents(gradients[0], kept->heads);
    for (size_t i = 1; i < 3; ++i) gradients[i] = documents(gradients[i], kept->key_heads);
    gradients.emplace_back();
    return gradients;
  }
};

}  // namespace

bool TakesTiles(const Tensor& query) {
  return SweepType(query).has_value() || (query.is_cpu() && query.scalar_type() == torch::kFloat16);
}

Tensor AttendByTiles(const Tensor& query, const Tensor& keys, const Tensor& values, const TiledAttention& options) {
  if (query.numel() == 0) return query.clone();
  if (query.scalar_type() == torch::kFloat16) {
    const auto wide = [](const Tensor& x) { return x.to(torch::kFloat32); };
    return AttendByTiles(wide(query), wide(keys), wide(values), options).to(torch::kFloat16);
  }
  const auto own = std::make_shared<TiledAttention>(options);
  if (own->traits.sinks.defined()) own->traits.sinks = own->traits.sinks.detach().to(torch::kFloat32).contiguous();
  return TiledAttentionFunction::apply(query, keys, values, std::shared_ptr<const TiledAttention>(own));
}

// bool, of what a query does not see: [B or 1, 1, T, T].
static Tensor Unseen(const TiledAttention& options, int64_t documents, int64_t tokens, torch::Device device) {
  const auto flags = torch::TensorOptions(torch::kBool).device(device);
  Tensor unseen = torch::zeros({1, 1, tokens, tokens}, flags);
  if (options.is_causal) unseen = unseen | torch::ones({tokens, tokens}, flags).triu(1);
  if (options.traits.window > 0) unseen = unseen | torch::ones({tokens, tokens}, flags).tril(-options.traits.window);
  if (options.real_keys.empty()) return unseen;
  const Tensor real = torch::tensor(options.real_keys, torch::kInt64).to(device).view({documents, 1, 1, 1});
  return unseen | (torch::arange(tokens, real.options()) >= real);
}

Tensor ProbabilitiesOf(const Tensor& products, int64_t head_size, const AttentionTraits& traits, const Tensor& unseen,
                       const Tensor& sinks) {
  Tensor scores = traits.scale > 0 ? products * traits.scale : products / std::sqrt(static_cast<double>(head_size));
  if (traits.softcap > 0) scores = torch::tanh(scores / traits.softcap) * traits.softcap;
  if (unseen.defined()) scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  if (!sinks.defined()) return at::softmax(scores, -1);
  const std::vector<int64_t> each = {scores.size(0), scores.size(1), scores.size(2), 1};
  const Tensor with_sinks = at::cat({scores, sinks.to(scores.scalar_type()).expand(each)}, 3);
  return at::softmax(with_sinks, -1).narrow(3, 0, scores.size(3));
}

Tensor AttendReference(const Tensor& query, const Tensor& keys, const Tensor& values, const TiledAttention& options,
                       const Tensor& factors) {
  const AttentionTraits& traits = options.traits;
  const int64_t documents = query.size(0), heads = query.size(1), tokens = query.size(2);
  const Tensor products = at::matmul(query, RepeatHeads(keys, heads).transpose(2, 3));
  const Tensor sinks = traits.sinks.defined() ? traits.sinks.view({1, heads, 1, 1}) : Tensor();
  const Tensor probabilities =
      ProbabilitiesOf(products, query.size(3), traits, Unseen(options, documents, tokens, query.device()), sinks);
  return at::matmul(factors.defined() ? probabilities * factors : probabilities, RepeatHeads(values, heads));
}

Tensor RepeatHeads(const Tensor& x, int64_t heads) {
  const int64_t repeats = heads / x.size(1);
  if (repeats == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, repeats, -1, -1}).reshape({x.size(0), heads, x.size(2), x.size(3)});
}

}  // namespace distill
