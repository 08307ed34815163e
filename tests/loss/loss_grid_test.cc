// The chunked loss against the reference, over types, shapes and options.
#include <utility>
#include <vector>

#include "tests/loss/compare_losses.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using testing::CheckSame;
using testing::InputShape;
using testing::MakeInputs;
using testing::NameOf;

TEST_CASE("chunks give what whole logits give, whatever shapes, chunk sizes and options") {
  const std::vector<InputShape> shapes = {{33, 16, 24, 128, 128}, {17, 8, 8, 101, 101, true},
                                          {20, 16, 16, 160, 151}, {20, 16, 16, 151, 160, true},
                                          {1, 4, 4, 7, 7},        {5, 3, 3, 1, 1}};
  for (const torch::Device& device : TestDevices()) {
    for (const InputShape& shape : shapes) {
      const DistillationInputs inputs = MakeInputs(shape, torch::kFloat32, device);
      for (const double temperature : {0.5, 1.0, 2.0}) {
        for (const double alpha : {0.0, 0.25, 1.0}) {
          for (const int64_t chunk_tokens : {1, 8, 1000}) {
            INFO(device << ", tokens " << shape.tokens << ", rows " << shape.student_rows << ", T " << temperature
                        << ", alpha " << alpha << ", chunks of " << chunk_tokens);
            CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .chunk_tokens = chunk_tokens}, 1e-5);
          }
        }
      }
    }
  }
}

TEST_CASE("every divergence, with labels or without, gives what the reference gives") {
  const std::vector<LogitScaling> scalings = {{}, {.scale = 0.25}, {.scale = 1.5, .softcap = 4}};
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      for (const double beta : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        for (const double temperature : {1.0, 2.0, 3.0}) {
          for (const LogitScaling& scaling : scalings) {
            DistillationInputs inputs = MakeInputs({9, 16, 24, 1100, 1123, true}, dtype, device, 0.5);
            inputs.student_logits = scaling;
            inputs.teacher_logits = {.scale = 0.5, .softcap = scaling.softcap / 2};
            for (const double alpha : {0.4, 1.0}) {
              INFO(device << ' ' << dtype << ", beta " << beta << ", T " << temperature << ", alpha " << alpha
                          << ", scale " << scaling.scale << ", softcap " << scaling.softcap);
              // Divergences of nearly equal logits: 1.05e-5 where loops sum without vectors.
              CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .beta = beta, .chunk_tokens = 4}, 3e-5);
            }
          }
        }
      }
    }
  }
}

// Those that are asked for by name, each with what it takes.
const std::vector<DistillationOptions> kNamed = {{.divergence = Divergence::kSkewedKl},
                                                 {.divergence = Divergence::kSkewedKl, .skew = 0.6},
                                                 {.divergence = Divergence::kSkewedReverseKl},
                                                 {.divergence = Divergence::kSkewedReverseKl, .skew = 0.6},
                                                 {.divergence = Divergence::kTotalVariation},
                                                 {.divergence = Divergence::kMse},
                                                 {.divergence = Divergence::kTopKKl},
                                                 {.divergence = Divergence::kTopKKl, .top_k_logits = 1},
                                                 {.divergence = Divergence::kTopKKl, .top_k_logits = kMostTopK}};

TEST_CASE("every divergence that has a name gives what the reference gives") {
  const std::vector<LogitScaling> scalings = {{}, {.scale = 0.25}, {.scale = 1.5, .softcap = 4}};
  int64_t turn = 0;  // what is not crossed takes turns
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      for (DistillationOptions options : kNamed) {
        for (const LogitScaling& scaling : scalings) {
          DistillationInputs inputs = MakeInputs({9, 16, 24, 1100, 1123, true}, dtype, device, 0.5);
          inputs.student_logits = scaling;
          inputs.teacher_logits = {.scale = -0.5, .softcap = scaling.softcap / 2};
          options.temperature = 1.0 + static_cast<double>(turn++ % 4 % 3);
          options.chunk_tokens = 4;
          for (const double alpha : {0.4, 1.0}) {
            options.alpha = alpha;
            INFO(device << ' ' << dtype << ", " << NameOf(options) << ", T " << options.temperature << ", alpha "
                        << alpha << ", scale " << scaling.scale << ", softcap " << scaling.softcap);
            CheckSame(inputs, options, 3e-5);
          }
        }
      }
    }
  }
}

// Where the teacher's products round, so may the choice of the top k, which is nobody's error: its logits are given.
TEST_CASE("every divergence that has a name, in narrow types, with vocabularies around blocks and missing labels") {
  struct Type {
    torch::Dtype dtype;
    double tolerance;
  };
  const Type types[] = {{torch::kFloat32, 3e-5}, {torch::kBFloat16, 2e-2}, {torch::kFloat16, 3e-3}};
  int64_t turn = 0;
  for (const torch::Device& device : TestDevices()) {
    for (const auto& [dtype, tolerance] : types) {
      for (const int64_t vocabulary : {1, 17, 1025}) {
        for (DistillationOptions options : kNamed) {
          DistillationInputs inputs =
              MakeInputs({7, 16, 8, vocabulary + turn % 3, vocabulary, turn % 2 == 0}, dtype, device, 0.5);
          inputs.student_logits = {.scale = 0.5, .softcap = turn % 4 == 0 ? 5.0 : 0.0};
          if (turn % 3 == 1) inputs.labels.narrow(0, 2, 3).fill_(-100);
          inputs.teacher_values = inputs.teacher_hidden.matmul(inputs.teacher_weight.t());
          inputs.teacher_hidden = inputs.teacher_weight = inputs.teacher_bias = torch::Tensor();
          options.temperature = 1.0 + static_cast<double>(turn % 3);
          options.alpha = turn % 5 == 0 ? 1.0 : 0.5;
          options.chunk_tokens = 1 + turn % 7;
          options.gradient_scale = dtype == torch::kFloat16 ? 1024.0 : 1.0;
          INFO(device << ' ' << dtype << ", " << vocabulary << " words, " << NameOf(options) << ", turn " << turn);
          CheckSame(inputs, options, tolerance);
          ++turn;
        }
      }
    }
  }
}

TEST_CASE("naming what beta means changes nothing") {
  const DistillationInputs inputs = MakeInputs({9, 16, 24, 300, 300}, torch::kFloat32, torch::kCPU, 0.5);
  const std::pair<DistillationOptions, DistillationOptions> same[] = {
      {{.beta = 0}, {.divergence = Divergence::kForwardKl}},
      {{.beta = 1}, {.divergence = Divergence::kReverseKl}},
      {{.beta = 0.4}, {.beta = 0.4, .divergence = Divergence::kJensenShannon}}};
  for (const auto& [by_beta, by_name] : same) {
    const testing::Result expected = testing::Evaluate(DistillationLoss, inputs, by_beta);
    const testing::Result found = testing::Evaluate(DistillationLoss, inputs, by_name);
    CHECK(torch::equal(found.sums.loss, expected.sums.loss));
    CHECK(torch::equal(found.gradients[1], expected.gradients[1]));
  }
}

TEST_CASE("a token without a label has the divergence alone") {
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      DistillationInputs inputs = MakeInputs({9, 16, 24, 1100, 1123, true}, dtype, device, 0.5);
      for (const int64_t labelled : {3, 0}) {
        inputs.labels.narrow(0, labelled, 9 - labelled).fill_(-100);
        for (const double beta : {0.0, 0.5, 1.0}) {
          for (const double temperature : {1.0, 2.0, 3.0}) {
            for (const double alpha : {0.0, 0.4, 1.0}) {
              INFO(device << ' ' << dtype << ", " << labelled << " labels, beta " << beta << ", T " << temperature
                          << ", alpha " << alpha);
              CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .beta = beta, .chunk_tokens = 4}, 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("vocabularies from 1 to 200,000, odd ones among them") {
  for (const int64_t rows : {1, 2, 15, 16, 17, 1023, 1024, 1025, 32000, 151936, 200000, 199999}) {
    for (const double beta : {0.0, 0.5, 1.0}) {
      INFO(rows << " rows, beta " << beta);
      CheckSame(MakeInputs({3, 4, 6, rows, rows + 1}, torch::kFloat32, torch::kCPU), {.beta = beta, .chunk_tokens = 2},
                1e-5);
    }
  }
}

// The axes of the cases above, crossed: each type with each length around blocks, padding of either head, a vocabulary
// below both, softcaps, missing labels and chunk sizes.
TEST_CASE("types, vocabularies, padding, softcaps, temperatures and missing labels together") {
  struct Type {
    torch::Dtype dtype;
    double tolerance;
  };
  const Type types[] = {{torch::kFloat32, 1e-5}, {torch::kBFloat16, 2e-2}, {torch::kFloat16, 3e-3}};
  int64_t turn = 0;  // what is not crossed takes turns
  for (const auto& [dtype, tolerance] : types) {
    for (const int64_t vocabulary : {1, 17, 1025, 2051, 40001}) {
      for (const double beta : {0.0, 0.3, 1.0}) {
        for (const int64_t padded : {0, 3}) {
          for (const double softcap : {0.0, 5.0}) {
            const int64_t of_student = turn / 4 % 2 == 0 ? padded : 0, of_teacher = padded - of_student;
            DistillationInputs inputs =
                MakeInputs({7, 16, 8, vocabulary + of_student, vocabulary + of_teacher, turn / 7 % 2 == 0}, dtype,
                           torch::kCPU, 0.5);
            inputs.student_logits = inputs.teacher_logits = {.scale = softcap > 0 ? 0.5 : 1, .softcap = softcap};
            if (turn / 3 % 2 == 1) inputs.labels.narrow(0, 2, 3).fill_(-100);
            const bool below = turn / 5 % 2 == 1 && vocabulary > 16;
            if (below) inputs.labels = torch::where(inputs.labels >= vocabulary - 5, inputs.labels - 5, inputs.labels);
            const DistillationOptions options{.temperature = 1.0 + static_cast<double>(turn % 3),
                                              .alpha = turn % 5 == 0 ? 1.0 : 0.5,
                                              .beta = beta,
                                              .chunk_tokens = 1 + turn % 7,
                                              .vocabulary = below ? vocabulary - 5 : 0,
                                              .gradient_scale = dtype == torch::kFloat16 ? 1024.0 : 1.0};
            INFO(dtype << ", " << vocabulary << " words, beta " << beta << ", padded by " << of_student << " and "
                       << of_teacher << ", softcap " << softcap << ", turn " << turn);
            CheckSame(inputs, options, tolerance);
            ++turn;
          }
        }
      }
    }
  }
}

TEST_CASE("in bfloat16 the difference is that of its rounding") {
  for (const torch::Device& device : TestDevices()) {
    const DistillationInputs inputs = MakeInputs({64, 32, 32, 257, 257}, torch::kBFloat16, device, 0.3);
    for (const double alpha : {0.0, 0.5, 1.0}) CheckSame(inputs, {.alpha = alpha, .chunk_tokens = 16}, 2e-2);
    for (const double beta : {0.5, 1.0}) CheckSame(inputs, {.beta = beta, .chunk_tokens = 16}, 2e-2);
  }
}

TEST_CASE("in float16 the difference is that of its rounding") {
  for (const torch::Device& device : TestDevices()) {
    const DistillationInputs inputs = MakeInputs({64, 32, 32, 257, 257, true}, torch::kFloat16, device, 0.3);
    for (const double scale : {1.0, 64.0}) {
      for (const double beta : {0.0, 0.5, 1.0}) {
        CheckSame(inputs, {.beta = beta, .chunk_tokens = 16, .gradient_scale = scale}, 3e-3);
      }
    }
  }
}

}  // namespace
}  // namespace distill
