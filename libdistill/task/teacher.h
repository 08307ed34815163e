// What a student learns from: given a batch, what the teacher's distributions over tokens are made of. It may be a
// model beside the student (LiveTeacher), or whatever else can answer: a server, or a file that was written before.
//
//   absl::StatusOr<TeacherAnswer> Ask(const TokenBatch& batch, const TokenTensors&, const TeacherRequest&) override {
//     DISTILL_ASSIGN_OR_RETURN(Stored stored, Find(batch.sample_ids));
//     return TeacherAnswer{.words = TeacherTopK{.values = stored.values, .ids = stored.ids}};
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/evaluator.h"

namespace distill {

// The forms of an answer: N positions of a batch, H hidden, V vocabulary, K tokens of a position. Each may lie on any
// device; one that is not the student's is copied there.

// Hidden states and the head that makes logits of them, which are then never whole in memory.
struct TeacherHead {
  torch::Tensor input;      // [N, H]: what becomes of the states before the head's product
  torch::Tensor weight;     // [V, H]
  torch::Tensor bias = {};  // [V], or undefined
  LogitScaling scaling = {};
};

struct TeacherLogits {
  torch::Tensor values;  // [N, V]
};

// Of the likeliest tokens alone. Two divergences can be taken of them (loss/distillation_loss.h has the formulas, and
// what ids and values may be): kl, beta 0, for which the others' probability is taken to be 0, and topk_kl, for which
// it is what the values leave.
struct TeacherTopK {
  torch::Tensor values;  // [N, K]: logits, or log-probabilities; for topk_kl log-probabilities alone
  torch::Tensor ids;     // int64 [N, K]
};

// What a loss wants beside states.
struct TeacherRequest {
  bool words = true;                 // one of the forms of words
  std::vector<int64_t> layers = {};  // states of these layers, as LanguageModel::StatesAt counts them
};

struct TeacherAnswer {
  torch::Tensor states = {};  // [N, H]: what the last block gives, for losses on states; undefined: it has none
  std::vector<torch::Tensor> layers = {};  // [N, H] each, of the layers that were asked for
  // None where no words were asked for.
  std::variant<std::monostate, TeacherHead, TeacherLogits, TeacherTopK> words = {};
};

class Teacher {
 public:
  virtual ~Teacher() = default;

  // Of the positions of a batch, tensors.positions, in their order and without gradients. `batch` says of which samples
  // they are. May block, fail and throw: an error ends all ranks.
  [[nodiscard]] virtual absl::StatusOr<TeacherAnswer> Ask(const TokenBatch& batch, const TokenTensors& tensors,
                                                          const TeacherRequest& request) = 0;
  virtual int64_t vocabulary() const = 0;            // V
  virtual int64_t hidden_size() const { return 0; }  // H of `states`; 0: it has none
  virtual int64_t num_layers() const { return 0; }   // that can be asked for; 0: none
  // The folder with its tokenizer; empty where there is none.
  virtual std::string source_folder() const { return ""; }
  // What must be the same on every rank, by name: which model answers, by which tokenizer and template.
  [[nodiscard]] virtual absl::StatusOr<Fields> Fingerprint() const { return Fields(); }
  // Whether every rank must ask for each micro-batch, also where nothing needs the answer: a sharded model's weights
  // are gathered by all ranks together.
  virtual bool must_be_asked() const { return false; }
  // Of its weights in this process, on devices of this type.
  virtual int64_t WeightBytes(c10::DeviceType type) const {
    (void)type;
    return 0;
  }
};

// What an objective with this teacher, or with none (null), has to be alike on every rank because of it.
[[nodiscard]] absl::StatusOr<Fields> FingerprintOf(const Teacher* teacher);

// A model beside the student, in the same process: frozen, and in evaluation mode. Null for a null model.
std::shared_ptr<Teacher> LiveTeacher(std::shared_ptr<LanguageModel> model);

}  // namespace distill
