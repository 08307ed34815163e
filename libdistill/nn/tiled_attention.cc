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

// Shapes: B documents, A heads of each, N = B * A, T tokens, D head size; a tile is G heads times Q queries and the
// first S keys.
namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of a tile's scores; with their gradients as much again. What a core's second cache holds.
constexpr int64_t kTileBytes = 384 << 10;
constexpr int64_t kLeastQueries = 64;

// Query, keys and values, contiguous [N, T, D].
struct Operands {
  Tensor query, keys, values;
  int64_t heads;  // A

  int64_t all_heads() const { return query.size(0); }
  int64_t tokens() const { return query.size(1); }
};

// How many heads have whole matrices in a tile, and if that is one, how many of its queries.
struct Tile {
  int64_t heads, queries;
};

Tile TileOf(const Operands& on) {
  const int64_t row = on.tokens() * on.query.element_size(), matrix = std::max<int64_t>(1, on.tokens() * row);
  if (matrix <= kTileBytes) return {std::clamp<int64_t>(kTileBytes / matrix, 1, on.all_heads()), on.tokens()};
  return {1, std::min(on.tokens(), std::max(kLeastQueries, kTileBytes / row))};
}

ScoreRows RowsOf(const Operands& on, const TiledAttention& options, const Tensor& log_sums) {
  ScoreRows rows = {.dtype = *SweepType(on.query),
                    .tokens = on.tokens(),
                    .real_keys = options.real_keys.empty() ? nullptr : options.real_keys.data(),
                    .heads = on.heads,
                    .is_causal = options.is_causal,
                    .scale = 1 / std::sqrt(static_cast<float>(on.query.size(2))),
                    .log_sums = log_sums.mutable_data_ptr<float>()};
  if (options.dropping.has_value()) rows.dropping = *options.dropping;
  return rows;
}

// What one thread works in.
struct Workspace {
  Workspace(const Operands& on, const Tile& tile)
      : scores(at::empty({tile.heads, tile.queries, on.tokens()}, on.query.options())),
        scratch(at::empty({2, (on.tokens() + kDropBlock - 1) / kDropBlock * kDropBlock},
                          on.query.options().dtype(torch::kFloat32))) {}

  Tensor scores, scratch;
};

// visit(heads, rows of the tile) for each tile of heads that begin within [begin, end) groups, those of a group in
// turn.
template <typename Visit>
void ForTiles(const Operands& on, const Tile& tile, int64_t begin, int64_t end, ScoreRows rows, const Visit& visit) {
  for (int64_t group = begin; group < end; ++group) {
    rows.first_head = group * tile.heads;
    const int64_t heads = std::min(tile.heads, on.all_heads() - rows.first_head);
    for (rows.first_query = 0; rows.first_query < on.tokens(); rows.first_query += tile.queries) {
      rows.queries = std::min(tile.queries, on.tokens() - rows.first_query);
      rows.keys = rows.is_causal ? rows.first_query + rows.queries : on.tokens();
      visit(heads, rows);
    }
  }
}

Tensor KeysOf(const Tensor& x, const ScoreRows& rows, int64_t heads) {
  return x.narrow(0, rows.first_head, heads).narrow(1, 0, rows.keys);
}
Tensor QueriesOf(const Tensor& x, const ScoreRows& rows, int64_t heads) {
  return x.narrow(0, rows.first_head, heads).narrow(1, rows.first_query, rows.queries);
}
// [G, Q, S] at the start of a workspace's memory.
Tensor ScoresIn(const Tensor& workspace, const ScoreRows& rows, int64_t heads) {
  return workspace.flatten().narrow(0, 0, heads * rows.queries * rows.keys).view({heads, rows.queries, rows.keys});
}

template <typename Body>
void ForGroups(const Operands& on, const Tile& tile, const Body& body) {
  ParallelFor((on.all_heads() + tile.heads - 1) / tile.heads, 1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard no_grad;  // a thread's own
    body(begin, end);
  });
}

// [N, T, D]; log_sums float32 [N, T].
Tensor Forward(const Operands& on, const TiledAttention& options, const Tensor& log_sums) {
  Tensor output = at::empty_like(on.query);
  const Tile tile = TileOf(on);
  ForGroups(on, tile, [&](int64_t begin, int64_t end) {
    const Workspace space(on, tile);
    ForTiles(on, tile, begin, end, RowsOf(on, options, log_sums), [&](int64_t heads, ScoreRows rows) {
      Tensor scores = ScoresIn(space.scores, rows, heads), attended = QueriesOf(output, rows, heads);
      at::bmm_out(scores, QueriesOf(on.query, rows, heads), KeysOf(on.keys, rows, heads).transpose(1, 2));
      rows.scores = scores.mutable_data_ptr();
      rows.scratch = space.scratch.mutable_data_ptr<float>();
      AttentionSweepsFor(rows.dtype).probabilities(rows, 0, heads * rows.queries);
      at::bmm_out(attended, scores, KeysOf(on.values, rows, heads));
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
  const bool is_only = tile.queries == on.tokens();
  // What several tiles add up is float32.
  const auto sums_like = [&](const Tensor& x) {
    return is_only ? at::empty_like(x) : at::zeros_like(x, torch::kFloat32);
  };
  Tensor of_query = at::empty_like(on.query), of_keys = sums_like(on.keys), of_values = sums_like(on.values);
  ForGroups(on, tile, [&](int64_t begin, int64_t end) {
    const Workspace space(on, tile);
    const Tensor gradients = at::empty_like(space.scores);
    ForTiles(on, tile, begin, end, RowsOf(on, options, log_sums), [&](int64_t heads, ScoreRows rows) {
      const Tensor query = QueriesOf(on.query, rows, heads), keys = KeysOf(on.keys, rows, heads),
                   incoming = QueriesOf(gradient, rows, heads);
      Tensor scores = ScoresIn(space.scores, rows, heads), of_scores = ScoresIn(gradients, rows, heads),
             of_queries = QueriesOf(of_query, rows, heads);
      at::bmm_out(scores, query, keys.transpose(1, 2));
      at::bmm_out(of_scores, incoming, KeysOf(on.values, rows, heads).transpose(1, 2));
      rows.scores = scores.mutable_data_ptr();
      rows.gradients = of_scores.mutable_data_ptr();
      rows.scratch = space.scratch.mutable_data_ptr<float>();
      AttentionSweepsFor(rows.dtype).probabilities_again(rows, 0, heads * rows.queries);
      at::bmm_out(of_queries, of_scores, keys);
      AddPart(KeysOf(of_keys, rows, heads), of_scores.transpose(1, 2), query, is_only);
      AddPart(KeysOf(of_values, rows, heads), scores.transpose(1, 2), incoming, is_only);
    });
  });
  return {of_query, of_keys.to(on.keys.scalar_type()), of_values.to(on.values.scalar_type())};
}

// What the graph keeps beside tensors.
struct Kept : torch::CustomClassHolder {
  Kept(std::shared_ptr<const TiledAttention> options_in, int64_t heads_in)
      : options(std::move(options_in)), heads(heads_in) {}
  const std::shared_ptr<const TiledAttention> options;
  const int64_t heads;
};

struct TiledAttentionFunction : torch::autograd::Function<TiledAttentionFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& keys, const Tensor& values,
                        const std::shared_ptr<const TiledAttention>& options) {
    const auto flat = [&](const Tensor& x) { return x.contiguous().flatten(0, 1); };
    const Operands on = {flat(query), flat(keys), flat(values), query.size(1)};
    const Tensor log_sums = at::empty({on.all_heads(), on.tokens()}, query.options().dtype(torch::kFloat32));
    const Tensor output = Forward(on, *options, log_sums).view(query.sizes());
    context->save_for_backward({on.query, on.keys, on.values, log_sums});
    context->saved_data["options"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(options, query.size(1)));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const variable_list saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["options"].toCapsule());
    const Operands on = {saved[0], saved[1], saved[2], kept->heads};
    variable_list gradients = Backward(on, *kept->options, saved[3], grads[0].contiguous().flatten(0, 1));
    for (Tensor& gradient : gradients) gradient = gradient.view(grads[0].sizes());
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
  return TiledAttentionFunction::apply(query, keys, values, std::make_shared<const TiledAttention>(options));
}

Tensor AttendReference(const Tensor& query, const Tensor& keys, const Tensor& values, const TiledAttention& options,
                       const Tensor& factors) {
  const int64_t documents = query.size(0), tokens = query.size(2);
  Tensor unseen = torch::zeros({documents, 1, tokens, tokens}, torch::kBool);
  if (options.is_causal) unseen = unseen | torch::ones({tokens, tokens}, torch::kBool).triu(1);
  if (!options.real_keys.empty()) {
    const Tensor real = torch::tensor(options.real_keys, torch::kInt64).view({documents, 1, 1, 1});
    unseen = unseen | (torch::arange(tokens) >= real);
  }
  const Tensor scores = at::matmul(query, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(query.size(3)));
  const Tensor seen = scores.masked_fill(unseen.to(scores.device()), -std::numeric_limits<double>::infinity());
  const Tensor probabilities = at::softmax(seen, -1);
  return at::matmul(factors.defined() ? probabilities * factors : probabilities, values);
}

}  // namespace distill
