#include "libdistill/plan/memory_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_rows.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/nn/pass_memory.h"
#include "libdistill/plan/memory_kinds.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

struct Moment {
  std::string when;
  std::vector<MemoryPart> parts;
};

int64_t SumOf(const std::vector<MemoryPart>& parts) {
  int64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

absl::Status CheckTask(const MemoryPlanTask& task) {
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"world_size", task.world_size},
                                    {"ranks_per_host", task.ranks_per_host},
                                    {"rows", task.rows},
                                    {"length", task.length},
                                    {"accumulation_steps", task.accumulation_steps},
                                    {"bucket_bytes", task.bucket_bytes}}) {
    if (value < 1) return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not above 0"));
  }
  if (task.chunk_tokens < 0) {
    return absl::InvalidArgumentError(absl::StrCat("chunk_tokens: ", task.chunk_tokens, " is below 0"));
  }
  if (task.world_size % task.ranks_per_host != 0) {
    return absl::InvalidArgumentError(absl::StrCat("world_size ", task.world_size, " is no multiple of ranks_per_host ",
                                                   task.ranks_per_host, ": every host has as many ranks"));
  }
  if (task.zero_stage < 0 || task.zero_stage > 3) {
    return absl::InvalidArgumentError(absl::StrCat("zero_stage: ", task.zero_stage, " is not 0, 1, 2 or 3"));
  }
  if (task.zero_stage == 3 && task.world_size > 1 && task.student.blocks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("zero_stage: 3 shards the blocks of a model, and a ", task.student.family, " has none; set 2"));
  }
  if (task.keeps_teacher_states && !task.teacher.has_value()) {
    return absl::InvalidArgumentError("keeps_teacher_states: there is no teacher");
  }
  return absl::OkStatus();
}

class Planner {
 public:
  explicit Planner(const MemoryPlanTask& task) : task_(task), of_(task) {
    ModelPass pass = {.tokens = task.rows * task.length,
                      .element_bytes = of_.element_bytes,
                      .several_lengths = task.packing || task.rows > 1,
                      .recomputes = task.gradient_checkpointing,
                      .scratch = of_.scratch,
                      .drops = task.dropout,
                      .drops_in_float32 = task.dtype == torch::kFloat16 && !task.on_gpu,
                      .on_gpu = task.on_gpu};
    student_ = task.student.memory(pass);
    pass.recomputes = pass.drops = false;
    if (task.teacher.has_value()) teacher_ = task.teacher->memory(pass);
    if (of_.head > 0) loss_ = MemoryOf(of_.Loss());
  }

  MemoryPlan Plan() const {
    std::vector<Moment> moments = {Loading(), Loss(), Backward(), EndOfBackward()};
    if (task_.teacher.has_value()) moments.push_back(TeacherPass());
    if (of_.stage > 0) moments.push_back(Sharding());
    const auto most = std::max_element(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
      return SumOf(a.parts) < SumOf(b.parts);
    });
    MemoryPlan plan{most->when, Always(), task_.on_gpu ? 0 : task_.process.shared_bytes};
    plan.parts.insert(plan.parts.end(), most->parts.begin(), most->parts.end());
    plan.host_bytes = task_.ranks_per_host * (plan.rank_bytes() - plan.host_shared_bytes) + plan.host_shared_bytes;
    std::erase_if(plan.parts, [](const MemoryPart& part) { return part.bytes == 0; });
    if (!task_.on_gpu && task_.ranks_per_host > 1) plan.in_shared_memory_bytes = of_.InSharedMemory();
    return plan;
  }

 private:
  bool BorrowsHeadGradient() const { return of_.Loss().is_borrowed; }
  std::string Type() const { return NameOf(*FromTorch(task_.dtype)); }
  std::string Share() const { return of_.shards > 1 ? absl::StrCat(", this rank's 1/", of_.shards) : ""; }

  // There at any time.
  std::vector<MemoryPart> Always() const {
    std::vector<MemoryPart> parts;
    if (!task_.on_gpu) {
      parts.push_back({"program and libraries", task_.process.bytes(), "as measured in this process"});
      parts.push_back({"data set and tokenizer", task_.data_bytes, "by the size of the files"});
      const int64_t batches = 2 * task_.accumulation_steps * task_.rows * task_.length * task_.student.input_bytes;
      parts.push_back({"batches", batches, "this step's and the next one's"});
    }
    if (task_.teacher.has_value()) {
      parts.push_back({"teacher's weights", of_.teacher.sum() * of_.element_bytes,
                       absl::StrCat(Type(), of_.shards_teacher ? ", shares of blocks and two that are gathered" : "")});
    }
    if (task_.ranks_per_host > 1 && !task_.on_gpu) {
      parts.push_back({"communicator", of_.Segments(), "slots in shared memory"});
    }
    parts.push_back({"lanes", of_.Lanes(), "segments on their way between hosts"});
    if (!task_.on_gpu)
      parts.push_back({"holes of the allocator", of_.Holes(), "one of the largest blocks of the heap"});
    return parts;
  }

  // There while training.
  std::vector<MemoryPart> State() const {
    const char* const what[] = {"float32 buckets", "float32 buckets; sums of this rank's slices are in place",
                                "float32: the slots that buckets use in rotation, and this rank's slices"};
    return {{"student's weights", of_.Weights(), absl::StrCat(Type(), of_.stage == 3 ? ", the blocks' sharded" : "")},
            {"student's frozen weights", of_.frozen * of_.element_bytes, Type()},
            {"gathered blocks", of_.shared.gathered * of_.element_bytes, "the student's that runs and the next one"},
            Masters(),
            {"optimizer's moments", AdamW::MomentElements(of_.own) * kFloatBytes, absl::StrCat("2 x float32", Share())},
            {"gradients", of_.Gradients(), what[std::min(of_.stage, 2)]},
            {"gradients on the way", of_.Wire(), OnTheWay()}};
  }

  std::string OnTheWay() const {
    const bool is_rounded = task_.gradient_compression != GradientCompression::kNone && task_.world_size > 1;
    return is_rounded ? "one bucket, rounded to bfloat16" : "parts of sums of squares";
  }

  MemoryPart Kept() const {
    return {"activations", student_.kept_bytes,
            absl::StrCat(task_.rows, " x ", task_.length, " tokens, ",
                         task_.gradient_checkpointing ? "each block's input" : "for the backward pass")};
  }

  // Blocks that are to be sharded are not loaded before they are.
  Moment Loading() const {
    const int64_t elements = of_.stage == 3 ? of_.shared.rest : of_.all;
    Moment moment{"when the models are loaded",
                  {{"student's weights", elements * kFloatBytes, "float32"},
                   {"student's frozen weights", of_.stage == 3 ? 0 : of_.frozen * kFloatBytes, "float32"}}};
    if (of_.shards_teacher) moment.parts.push_back(OnItsWay(of_.largest_of_teacher * of_.element_bytes));
    return moment;
  }

  // The parameters move, one by one, to where ranks share them: the largest is there twice.
  Moment Sharding() const {
    const int64_t whole = of_.stage == 3 ? of_.shared.rest : of_.all;
    return {"before the first step, when the student's state is sharded",
            {{"student's weights", whole * kFloatBytes, "float32, as loaded"},
             {"student's frozen weights", of_.frozen * kFloatBytes, "float32, as loaded"},
             {"student's shares", (of_.shared.shares + of_.shared.gathered) * of_.element_bytes, Type()},
             OnItsWay(of_.largest * (of_.stage == 3 ? kFloatBytes : of_.element_bytes)),
             Masters()}};
  }

  MemoryPart Masters() const {
    return {"student's masters", AdamW::MasterElements(of_.own, task_.dtype) * kFloatBytes,
            absl::StrCat("float32", Share())};
  }

  static MemoryPart OnItsWay(int64_t bytes) { return {"weight on its way", bytes, "one after the other"}; }

  Moment TeacherPass() const {
    Moment moment{"in the teacher's pass", State()};
    moment.parts.push_back({"teacher's pass", teacher_.forward_bytes, "one block's"});
    return moment;
  }

  // What the loss of the outputs, or of the states, has of the teacher until the backward pass has been.
  MemoryPart TeacherAnswer() const {
    const int64_t states = task_.keeps_teacher_states ? task_.teacher->hidden * of_.element_bytes : 0;
    return {"teacher's answer", teacher_.output_bytes + task_.rows * task_.length * states, ""};
  }

  // In training, when activations are there.
  Moment InStep(const std::string& when) const {
    Moment moment{when, State()};
    moment.parts.push_back(Kept());
    if (task_.teacher.has_value()) moment.parts.push_back(TeacherAnswer());
    return moment;
  }

  Moment Loss() const {
    Moment moment = InStep("when the loss is taken");
    if (of_.head == 0) return moment;
    moment.parts.push_back(
        {"head and loss", loss_.during_bytes(),
         absl::StrCat("logits of ", ChunkTokens(of_.Loss()), " tokens, the gradients of head and hidden states")});
    return moment;
  }

  Moment Backward() const {
    Moment moment = InStep("when the backward pass begins");
    // In the narrower type, where autograd is to have it; and on a GPU, where nobody waits to learn that it is 1, times
    // the scalar that came, but for what was borrowed.
    const bool is_rounded = of_.narrow && of_.stage >= 2;
    const bool is_copied = task_.on_gpu && !BorrowsHeadGradient();
    const int64_t again = !task_.student.trains_head ? 0
                          : is_rounded               ? of_.head * of_.element_bytes
                          : is_copied                ? of_.head * kFloatBytes
                                                     : 0;
    moment.parts.push_back({"gradients of head and hidden states", loss_.gradient_bytes + again, ""});
    moment.parts.push_back({"backward pass", student_.backward_bytes + of_.Waiting(),
                            task_.gradient_checkpointing ? "one block, computed again" : "one block's"});
    return moment;
  }

  // Of looked-up rows alone, as they came and as the ranks sum them (gradient_rows.h).
  int64_t RowsApart() const {
    const int64_t tokens = task_.rows * task_.length, hidden = task_.student.hidden;
    return tokens * hidden * of_.element_bytes +
           GradientRows::Bytes(task_.student.vocabulary, hidden, tokens * task_.accumulation_steps, task_.world_size);
  }

  // The embedding's gradient; with a tied head that of the head has been waiting for it, unless it is in its bucket.
  Moment EndOfBackward() const {
    Moment moment{"when the backward pass ends", State()};
    const bool is_tied = task_.student.is_tied && task_.student.trains_head;
    if (is_tied && of_.stage == 0 && !task_.on_gpu) {
      moment.parts.push_back({"gradient of the embedding", RowsApart(), "of the rows that were looked up"});
      return moment;
    }
    const bool is_in_bucket = of_.narrow ? of_.stage < 2 : BorrowsHeadGradient();
    const int64_t waiting = is_tied && !is_in_bucket ? 1 : 0;
    const int64_t last = (1 + waiting) * task_.student.last_gradient * of_.element_bytes;
    moment.parts.push_back({"last gradient", last + of_.OwnBucket(), "of the embedding, or of the first layer"});
    moment.parts.push_back({"backward pass", of_.Waiting(), "gradients of one bucket"});
    return moment;
  }

  const MemoryPlanTask& task_;
  const MemoryKinds of_;
  PassMemory student_, teacher_;
  LossMemory loss_;
};

}  // namespace

int64_t DataSetBytes(int64_t file_bytes) { return file_bytes + file_bytes / 3 * (4 + 1); }

int64_t MemoryPlan::rank_bytes() const { return SumOf(parts); }

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryPlanTask& task) {
  DISTILL_RETURN_IF_ERROR(CheckTask(task));
  return Planner(task).Plan();
}

}  // namespace distill
