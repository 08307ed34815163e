// Tables whose gradient comes in two parts, against plain sums of whole gradients.
#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_blocks.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/model_gradients.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"
#include "tests/gradients/reducer_nets.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/tiny_llama.h"

namespace distill {
namespace {

using testing::AllNetKinds;
using testing::CheckNorm;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::HasTokens;
using testing::Meet;
using testing::Net;
using testing::NetKind;
using testing::ParametersOf;
using testing::PlainSums;
using testing::RunRanks;
using testing::TinyLlama;
using torch::Tensor;

constexpr auto kLimit = absl::Seconds(120);

int64_t IndexOf(const std::vector<TrainedParameter>& parameters, const Tensor& tensor) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].tensor.is_same(tensor)) return static_cast<int64_t>(i);
  }
  return -1;
}

struct RowsCase {
  int64_t micro_batches, bucket_bytes;
  GradientCompression compression;  // whole numbers this small lose nothing by it
};

absl::Status Compare(Communicator& comm, const NetKind& kind, const RowsCase& c) {
  Net net(kind);
  const auto parameters = ParametersOf(net);
  const int64_t table = IndexOf(parameters, net.embedding);
  DISTILL_ASSIGN_OR_RETURN(
      const auto reducer,
      GradientReducer::Create(comm, parameters,
                              {.bucket_bytes = c.bucket_bytes, .compression = c.compression, .rows_of = table}));
  net.take_rows = [&](const Tensor& ids, const Tensor& rows) { reducer->AddRows(ids, rows); };
  const std::string what =
      absl::StrCat(kind.name, " over ", comm.backend(), ", ", c.micro_batches, " micro-batches, buckets of ",
                   c.bucket_bytes, ", compression ", FieldText(c.compression));
  for (int64_t step = 0; step < 6; ++step) {
    reducer->StartStep();
    DISTILL_RETURN_IF_ERROR(Expect(reducer->TakesRows(net.embedding), "takes no rows in a step"));
    for (int64_t m = 0; m < c.micro_batches && HasTokens(comm, step); ++m) {
      std::optional<GradientReducer::NoSync> no_sync;
      if (m + 1 < c.micro_batches) no_sync.emplace(*reducer);
      net.Loss(comm.rank(), step, m).backward();
    }
    absl::Status mine;
    std::vector<size_t> came;
    DISTILL_RETURN_IF_ERROR(reducer->Finish(mine, [&](size_t b) { came.push_back(b); }));
    DISTILL_RETURN_IF_ERROR(Expect(!reducer->TakesRows(net.embedding), "takes rows outside of a step"));
    // In order, the one with rows last.
    const GradientBuckets& buckets = reducer->buckets();
    const size_t last = buckets.plan().bucket_of(static_cast<size_t>(table));
    std::vector<size_t> wanted;
    for (size_t b = 0; b < buckets.num_buckets(); ++b) {
      if (b != last) wanted.push_back(b);
    }
    wanted.push_back(last);
    DISTILL_RETURN_IF_ERROR(Expect(came == wanted, absl::StrCat(what, ": buckets came in another order")));
    DISTILL_ASSIGN_OR_RETURN(const auto expected, PlainSums(comm, kind, step, c.micro_batches));
    for (size_t i = 0; i < parameters.size(); ++i) {
      DISTILL_RETURN_IF_ERROR(Expect(torch::equal(buckets.gradient(i), expected[i]),
                                     absl::StrCat(what, ", step ", step, ": ", parameters[i].name, " differs")));
    }
    DISTILL_RETURN_IF_ERROR(CheckNorm(buckets, expected, what));
  }
  return absl::OkStatus();
}

absl::Status CompareAll(const World& world, BackendPreference backend) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, backend));
  return CatchTorch([&]() -> absl::Status {
    for (NetKind kind : AllNetKinds()) {
      if (kind.sparse) continue;
      for (const int64_t micro_batches : {1, 3}) {
        for (const GradientCompression compression : {GradientCompression::kNone, GradientCompression::kBf16}) {
          kind.headless =
              micro_batches == 3 && compression == GradientCompression::kNone;  // then the rows are all of it
          const int64_t bucket_bytes = compression == GradientCompression::kNone ? 1 : 1 << 20;
          DISTILL_RETURN_IF_ERROR(Compare(*comm, kind, {micro_batches, bucket_bytes, compression}));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_CASE("a table's gradient in two parts sums to that of the whole") {
  CHECK(Failures(RunRanks(1, kLimit, [](const World& world) { return CompareAll(world, BackendPreference::kShm); })) ==
        "");
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    for (const int ranks : {2, 3}) {
      INFO(ranks << " ranks over " << FieldText(backend));
      CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return CompareAll(world, backend); })) == "");
    }
  }
}

// What ends the pass that looked up rows need not wait for: the table's bucket is the first, not the last.
TEST_CASE("the part that is the head's leaves when it is there, before the layers'") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kShm));
          for (const bool apart : {false, true}) {
            Net net({.name = "tied", .tied = true});
            const auto parameters = ParametersOf(net);
            const int64_t table = apart ? IndexOf(parameters, net.embedding) : -1;
            DISTILL_ASSIGN_OR_RETURN(const auto reducer,
                                     GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1, .rows_of = table}));
            if (apart) net.take_rows = [&](const Tensor& ids, const Tensor& rows) { reducer->AddRows(ids, rows); };
            for (int64_t step = 0; step < 2; ++step) {
              reducer->StartStep();
              net.Loss(world.rank, step, 0).backward();
              absl::Status mine;
              DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
            }
            std::string order;
            for (const int64_t i : reducer->order()) {
              absl::StrAppend(&order, parameters[static_cast<size_t>(i)].name, " ");
            }
            const std::string name = parameters[static_cast<size_t>(IndexOf(parameters, net.embedding))].name;
            DISTILL_RETURN_IF_ERROR(Expect((order.find(name) < order.find("layer3")) == apart, order));
          }
          return absl::OkStatus();
        })) == "");
}

TEST_CASE("a rank that fails after its head's part keeps the others neither waiting nor wrong about it") {
  CHECK(Failures(RunRanks(3, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kFabric));
          Net net({.name = "tied", .tied = true});
          const auto parameters = ParametersOf(net);
          DISTILL_ASSIGN_OR_RETURN(
              const auto reducer,
              GradientReducer::Create(*comm, parameters,
                                      {.bucket_bytes = 1, .rows_of = IndexOf(parameters, net.embedding)}));
          for (int64_t step = 0; step < 3; ++step) {
            net.take_rows = [&](const Tensor& ids, const Tensor& rows) {
              if (world.rank == 1 && step == 2) throw std::runtime_error("the rows went wrong");
              reducer->AddRows(ids, rows);
            };
            reducer->StartStep();
            absl::Status mine = CatchTorch([&] {
              net.Loss(world.rank, step, 0).backward();
              return absl::OkStatus();
            });
            DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
            DISTILL_RETURN_IF_ERROR(Expect(mine.ok() == !(world.rank == 1 && step == 2), "the wrong rank failed"));
          }
          return absl::OkStatus();
        })) == "");
}

TEST_CASE("ranks that do not part the same gradient get an error with both") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kShm));
          Net net({.name = "tied", .tied = true});
          const auto parameters = ParametersOf(net);
          const int64_t table = world.rank == 0 ? IndexOf(parameters, net.embedding) : -1;
          const absl::Status status = GradientReducer::Create(*comm, parameters, {.rows_of = table}).status();
          return ExpectError(status, absl::StatusCode::kFailedPrecondition,
                             {"rows' gradients are summed apart", "rank 0 on", "rank 1 on", "-1"});
        })) == "");
}

TEST_CASE("rows are refused outside of a step, of another shape, and of what is no matrix") {
  const auto alone = CreateAloneCommunicator();
  Net net({.name = "tied", .tied = true});
  const auto parameters = ParametersOf(net);
  const int64_t table = IndexOf(parameters, net.embedding);
  const auto reducer = GradientReducer::Create(*alone, parameters, {.rows_of = table}).value();
  const Tensor ids = torch::tensor({1, 2}, torch::kInt64);
  CHECK_THROWS_WITH(reducer->AddRows(ids, torch::zeros({2, 4})), Catch::Contains("before Finish"));
  const auto refused = GradientReducer::Create(*alone, parameters, {.rows_of = IndexOf(parameters, net.bias)});
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  GradientRows rows(7, 4);
  CHECK_THROWS_WITH(rows.Add(ids, torch::zeros({2, 3})), Catch::Contains("2 rows of 4"));
}

// In any order of the ranks' rows, with rows that nobody has.
TEST_CASE("the squares grow by what was added, also where that is not finite") {
  GradientRows rows(5, 3);
  rows.Add(torch::tensor({4, 0, 4}, torch::kInt64), torch::arange(9).to(torch::kFloat32).view({3, 3}));
  CHECK(rows.size() == 2);
  const Tensor table = torch::ones({5, 3});
  auto* values = static_cast<float*>(table.data_ptr());
  const double before = SumOfSquares(values, 15);
  const auto alone = CreateAloneCommunicator();
  REQUIRE(rows.Sum(*alone,
                   [](float*, int64_t count) {
                     CHECK(count == 6);
                     return absl::OkStatus();
                   })
              .ok());
  const double grown = rows.AddTo(values);
  CHECK(before + grown == SumOfSquares(values, 15));
  CHECK(torch::equal(table, torch::tensor({{4, 5, 6}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {7, 9, 11}}, torch::kFloat32)));
  rows.Clear();
  CHECK(rows.size() == 0);
  rows.Add(torch::tensor({2}, torch::kInt64), torch::full({1, 3}, INFINITY));
  REQUIRE(rows.Sum(*alone, [](float*, int64_t) { return absl::OkStatus(); }).ok());
  CHECK_FALSE(std::isfinite(rows.AddTo(values)));
}

// The whole way: the model's look-up, its reducer and the trainer's wiring, against autograd's own sums.
TEST_CASE("a tied decoder gives its reducer the rows, and the sums are those of whole gradients") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kShm));
          DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, TinyLlama());
          std::vector<Tensor> sums[2];
          for (const bool apart : {false, true}) {
            Decoder model(config, /*seed=*/5);
            DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
            const int64_t table = TiedTable(model, parameters);
            DISTILL_RETURN_IF_ERROR(Expect(table >= 0, "no tied table"));
            DISTILL_ASSIGN_OR_RETURN(
                const std::shared_ptr<GradientReducer> reducer,
                GradientReducer::Create(*comm, parameters, {.rows_of = apart ? table : int64_t{-1}}));
            GiveGradientsTo(reducer, model);
            torch::manual_seed(static_cast<uint64_t>(world.rank));
            const Tensor ids = torch::randint(61, {2, 9}, torch::kInt64);
            reducer->StartStep();
            model.Hidden({ids, {}}).matmul(model.head_weight().t()).sin().sum().backward();
            absl::Status mine;
            DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
            const GradientBuckets& buckets = reducer->buckets();
            const GradientBucket& bucket = buckets.bucket(buckets.plan().bucket_of(static_cast<size_t>(table)));
            DISTILL_RETURN_IF_ERROR(Expect((bucket.summed > bucket.values.numel()) == apart, "rows went elsewhere"));
            for (size_t i = 0; i < parameters.size(); ++i) {
              sums[apart ? 1 : 0].push_back(reducer->buckets().gradient(i).clone());
            }
          }
          for (size_t i = 0; i < sums[0].size(); ++i) {
            DISTILL_RETURN_IF_ERROR(Expect(torch::allclose(sums[1][i], sums[0][i], 1e-5, 1e-5), "other sums"));
          }
          return absl::OkStatus();
        })) == "");
}

TEST_CASE("a user's hook on the table sees its whole gradient, which is then not parted") {
  const auto alone = CreateAloneCommunicator();
  Decoder model(TinyLlama().value(), /*seed=*/5);
  const auto parameters = CollectParameters(model, {}).value();
  const std::shared_ptr<GradientReducer> reducer =
      GradientReducer::Create(*alone, parameters, {.rows_of = TiedTable(model, parameters)}).value();
  reducer->StartStep();
  CHECK(reducer->TakesRows(model.head_weight()));
  Tensor table = model.head_weight();
  const auto hook = table.register_hook([](const Tensor& gradient) { return gradient * 0; });
  CHECK_FALSE(reducer->TakesRows(table));
  GiveGradientsTo(reducer, model);
  model.Hidden({torch::ones({1, 3}, torch::kInt64), {}}).matmul(table.t()).sum().backward();
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());
  const auto i = static_cast<size_t>(reducer->options().rows_of);
  CHECK(reducer->buckets().gradient(i).abs().max().item<float>() == 0);
  table.remove_hook(hook);
}

}  // namespace
}  // namespace distill
