#include "libdistill/train/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/shm_group.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/decoder_memory.h"
#include "libdistill/train/bucket_places.h"
#include "libdistill/train/gradient_buckets.h"
#include "libdistill/train/gradient_reducer.h"

namespace distill {
namespace {

constexpr int64_t kFloat = sizeof(float);

struct Moment {
  std::string when;
  std::vector<MemoryPart> parts;
  int64_t of_one_rank = 0;  // of these: what rank 0 alone has
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
                                    {"bucket_bytes", task.bucket_bytes},
                                    {"chunk_tokens", task.chunk_tokens}}) {
    if (value < 1) return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not above 0"));
  }
  if (task.world_size % task.ranks_per_host != 0) {
    return absl::InvalidArgumentError(absl::StrCat("world_size ", task.world_size, " is no multiple of ranks_per_host ",
                                                   task.ranks_per_host, ": every host has as many ranks"));
  }
  if (task.zero_stage < 0 || task.zero_stage > 3) {
    return absl::InvalidArgumentError(absl::StrCat("zero_stage: ", task.zero_stage, " is not 0, 1, 2 or 3"));
  }
  if (task.gradient_compression == "none" || task.gradient_compression == "bf16") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gradient_compression: '", task.gradient_compression, "' is neither none nor bf16"));
}

const char* TypeName(torch::Dtype dtype) {
  if (dtype == torch::kBFloat16) return "bfloat16";
  return dtype == torch::kFloat16 ? "float16" : "float32";
}

// Elements of a model whose blocks' weights are shared out (sharded_blocks.h).
struct SharedOut {
  int64_t rest = 0;      // of no block: whole
  int64_t shares = 0;    // a rank's, of all blocks
  int64_t gathered = 0;  // the two places in which blocks take turns
};

SharedOut ShareOut(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  SharedOut shared;
  std::map<int64_t, int64_t> blocks;
  for (size_t b = 0; b < plan.plan().buckets.size(); ++b) {
    const int64_t block = block_of[plan.plan().buckets[b][0]];
    if (block < 0) {
      shared.rest += plan.padded(b);
      continue;
    }
    shared.shares += plan.slice(b);
    blocks[block] += plan.padded(b);
  }
  for (const auto& [block, elements] : blocks) shared.gathered = std::max(shared.gathered, 2 * elements);
  return shared;
}

// `block_of`: in stage 3.
class Planner {
 public:
  Planner(const MemoryPlanTask& task, const std::vector<TrainedParameter>& parameters,
          const std::vector<int64_t>& block_of)
      : task_(task),
        stage_(task.world_size > 1 ? task.zero_stage : 0),
        shards_(stage_ > 0 ? task.world_size : 1),
        bytes_(static_cast<int64_t>(torch::elementSize(task.dtype))),
        elements_(ElementsOf(parameters)),
        plan_(ShardedPlan(parameters, shards_, task.bucket_bytes, block_of)) {
    if (!block_of.empty()) shared_ = ShareOut(plan_, block_of);
    for (size_t i = 0; i < elements_.size(); ++i) {
      all_ += elements_[i];
      own_ += plan_.OfParameter(i, 0).count;  // the first rank's are never fewer than another's
    }
    const int64_t tokens = task.rows * task.length;
    const bool several = task.packing || task.rows > 1;
    student_ = MemoryOf(task.student, {tokens, bytes_, several, task.gradient_checkpointing});
    LossShape shape{.tokens = tokens,
                    .chunk_tokens = task.chunk_tokens,
                    .vocabulary = task.student.vocab_size,
                    .student_rows = task.student.vocab_size,
                    .student_hidden = task.student.hidden_size,
                    .element_bytes = bytes_};
    if (task.teacher.has_value()) {
      teacher_ = MemoryOf(*task.teacher, {tokens, bytes_, several, false});
      shape.teacher_hidden = task.teacher->hidden_size;
      shape.vocabulary = std::min(shape.vocabulary, task.teacher->vocab_size);
    }
    loss_ = MemoryOf(shape);
    head_ = task.student.vocab_size * task.student.hidden_size;
  }

  MemoryPlan Plan() const {
    std::vector<Moment> moments = {Loading(), Loss(), Backward(), EndOfBackward()};
    if (task_.teacher.has_value()) moments.push_back(TeacherPass());
    if (stage_ > 0) moments.push_back(Sharding());
    if (task_.saves_checkpoints && stage_ > 0 && !task_.on_gpu) moments.push_back(Saving());
    const auto most = std::max_element(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
      return SumOf(a.parts) < SumOf(b.parts);
    });
    std::vector<MemoryPart> always = Always();
    MemoryPlan plan{most->when, always, task_.on_gpu ? 0 : task_.process.shared_bytes};
    for (const Moment& moment : moments) {
      const int64_t of_each = SumOf(always) + SumOf(moment.parts) - moment.of_one_rank - plan.host_shared_bytes;
      const int64_t host = task_.ranks_per_host * of_each + moment.of_one_rank + plan.host_shared_bytes;
      plan.host_bytes = std::max(plan.host_bytes, host);
    }
    plan.parts.insert(plan.parts.end(), most->parts.begin(), most->parts.end());
    const auto is_empty = [](const MemoryPart& part) { return part.bytes == 0; };
    plan.parts.erase(std::remove_if(plan.parts.begin(), plan.parts.end(), is_empty), plan.parts.end());
    if (!task_.on_gpu && task_.ranks_per_host > 1) plan.in_shared_memory_bytes = InSharedMemory();
    return plan;
  }

 private:
  const char* Type() const { return TypeName(task_.dtype); }
  std::string Share() const { return shards_ > 1 ? absl::StrCat(", this rank's 1/", shards_) : ""; }

  // There at any time.
  std::vector<MemoryPart> Always() const {
    std::vector<MemoryPart> parts;
    if (!task_.on_gpu) {
      parts.push_back({"program and libraries", task_.process.bytes(), "as measured in this process"});
      parts.push_back({"data set and tokenizer", task_.data_bytes, "by the size of the files"});
      const int64_t batches = 2 * task_.accumulation_steps * task_.rows * task_.length * 2 * 4;
      parts.push_back({"batches", batches, "this step's and the next one's: ids and labels"});
    }
    if (task_.teacher.has_value()) {
      parts.push_back({"teacher's weights", TeacherInUse() * bytes_,
                       absl::StrCat(Type(), SharesTeacher() ? ", shares of blocks and two that are gathered" : "")});
    }
    if (task_.ranks_per_host > 1 && !task_.on_gpu) {
      parts.push_back({"communicator", Segments(), "slots in shared memory"});
    }
    if (!task_.on_gpu) parts.push_back({"holes of the allocator", Holes(), "one of the largest blocks of the heap"});
    return parts;
  }

  // There while training.
  std::vector<MemoryPart> State() const {
    std::vector<MemoryPart> parts = {
        {"student's weights", Weights(), absl::StrCat(Type(), stage_ == 3 ? ", the blocks' shared out" : "")},
        {"gathered blocks", shared_.gathered * bytes_, "the student's that runs and the next one"}};
    if (narrow_) parts.push_back({"student's masters", own_ * kFloat, absl::StrCat("float32", Share())});
    parts.push_back({"optimizer's moments", 2 * own_ * kFloat, absl::StrCat("2 x float32", Share())});
    const char* const what[] = {"float32 buckets", "float32 buckets; sums of this rank's slices are in place",
                                "float32: the places that buckets take in turn, and this rank's slices"};
    parts.push_back({"gradients", Gradients(), what[std::min(stage_, 2)]});
    parts.push_back({"gradients on the way", Wire(), "one bucket, rounded to bfloat16"});
    return parts;
  }

  bool SharesTeacher() const { return task_.teacher.has_value() && task_.shard_teacher && task_.world_size > 1; }

  int64_t TeacherElements() const {
    int64_t elements = 0;
    for (const torch::Tensor& tensor : DecoderShapes(*task_.teacher, torch::kFloat32)->parameters()) {
      elements += tensor.numel();
    }
    return elements;
  }

  SharedOut SharedTeacher() const {
    const auto shapes = DecoderShapes(*task_.teacher, torch::kFloat32);
    const auto parameters = CollectParameters(*shapes, {});
    if (!parameters.ok()) return {.rest = TeacherElements(), .shares = 0, .gathered = 0};
    const std::vector<int64_t> block_of = BlocksOf(*shapes, *parameters);
    return ShareOut(ShardedPlan(*parameters, task_.world_size, task_.bucket_bytes, block_of), block_of);
  }

  int64_t TeacherInUse() const {
    if (!SharesTeacher()) return TeacherElements();
    const SharedOut shared = SharedTeacher();
    return shared.rest + shared.shares + shared.gathered;
  }

  int64_t Weights() const {
    if (stage_ == 3) return (shared_.rest + shared_.shares) * bytes_;
    return (stage_ > 0 ? PlacesInARow(plan_).elements : all_) * bytes_;
  }

  int64_t Gradients() const {
    if (stage_ < 2) return RoomForAnyPlan(elements_, shards_) * kFloat;
    int64_t slices = 0;
    for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) slices += plan_.slice(b);
    return (PlacesInTurn(plan_).elements + slices) * kFloat;
  }

  int64_t Wire() const {
    if (task_.gradient_compression == "none" || task_.world_size == 1) return 0;
    int64_t largest = 0;
    for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) largest = std::max(largest, plan_.padded(b));
    return 2 * largest;
  }

  // Of the run's communicator, and of one for each model that is shared out.
  int64_t Segments() const {
    const int64_t communicators = 1 + (stage_ == 3 ? 1 : 0) + (SharesTeacher() ? 1 : 0);
    return communicators * static_cast<int64_t>(ShmGroup::SegmentBytes(task_.ranks_per_host));
  }

  // Of weights what collectives write: shares of blocks are in memory of their own.
  int64_t InSharedMemory() const {
    int64_t slices = 0;
    for (size_t b = 0; stage_ >= 2 && b < plan_.plan().buckets.size(); ++b) slices += plan_.slice(b);
    const int64_t whole = stage_ > 0 ? Weights() : 0;
    const int64_t student = stage_ == 3 ? (shared_.rest + shared_.gathered) * bytes_ : whole;
    const int64_t teacher = SharesTeacher() ? SharedTeacher().gathered * bytes_ : 0;
    return Segments() + Gradients() - slices * kFloat + Wire() + student + teacher;
  }

  // glibc gives blocks of 32 MiB and more (M_MMAP_THRESHOLD's maximum, mallopt(3)) back to the system one by one; those
  // below come out of a heap, where a hole is of no use to a larger block. docs/performance.md has what is measured.
  int64_t Holes() const {
    constexpr int64_t kOfTheirOwn = 32 << 20;
    const int64_t tokens = task_.rows * task_.length;
    int64_t largest = 0;
    for (const int64_t block : {head_ * kFloat, head_ * bytes_, task_.chunk_tokens * task_.student.vocab_size * bytes_,
                                tokens * task_.student.intermediate_size * bytes_,
                                task_.student.intermediate_size * task_.student.hidden_size * bytes_}) {
      if (block < kOfTheirOwn) largest = std::max(largest, block);
    }
    return largest;
  }

  // In stage 2, of gradients that are not in a place: of the parameters of one bucket that is being filled, and of a
  // bucket that has memory of its own as long as it is summed.
  int64_t Waiting() const {
    if (stage_ < 2) return 0;
    int64_t waiting = 0;
    const BucketPlaces places = PlacesInTurn(plan_);
    for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) {
      if (places.begin[b] != kNoPlace) waiting = std::max(waiting, plan_.elements(b) * bytes_);
    }
    return waiting;
  }

  int64_t OwnBucket() const {
    if (stage_ < 2) return 0;
    int64_t largest = 0;
    const BucketPlaces places = PlacesInTurn(plan_);
    for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) {
      const bool is_gradient = !narrow_ && plan_.plan().buckets[b].size() == 1 && plan_.padded(b) == plan_.elements(b);
      if (places.begin[b] == kNoPlace && !is_gradient) largest = std::max(largest, plan_.padded(b) * kFloat);
    }
    return largest;
  }

  MemoryPart Kept() const {
    return {"activations", student_.kept_bytes,
            absl::StrCat(task_.rows, " x ", task_.length, " tokens, ",
                         task_.gradient_checkpointing ? "each block's input" : "for the backward pass")};
  }

  Moment Loading() const {
    Moment moment{"when the models are loaded", {{"student's weights", all_ * kFloat, "float32"}}, 0};
    if (task_.teacher.has_value()) {
      moment.parts.push_back(
          {"teacher's weights", (TeacherElements() - TeacherInUse()) * bytes_, "not shared out yet"});
    }
    return moment;
  }

  // The parameters move, one by one, to where ranks share them: the largest is there twice.
  Moment Sharding() const {
    const int64_t largest = *std::max_element(elements_.begin(), elements_.end());
    Moment moment{"before the first step, when the student's state is shared out",
                  {{"student's weights", all_ * kFloat, "float32, as loaded"},
                   {"parameter on its way", largest * bytes_, Type()}},
                  0};
    if (narrow_) moment.parts.push_back({"student's masters", own_ * kFloat, absl::StrCat("float32", Share())});
    return moment;
  }

  Moment TeacherPass() const {
    Moment moment{"in the teacher's pass", State(), 0};
    moment.parts.push_back({"teacher's pass", teacher_.forward_bytes, "one block's"});
    return moment;
  }

  Moment Loss() const {
    Moment moment{"when the loss is taken", State(), 0};
    moment.parts.push_back(Kept());
    moment.parts.push_back(
        {"head and loss", loss_.during_bytes(), "a chunk's logits, the gradients of head and hidden states"});
    return moment;
  }

  Moment Backward() const {
    Moment moment{"when the backward pass begins", State(), 0};
    moment.parts.push_back(Kept());
    // In the narrower type; and on a GPU, where nobody waits to learn that it is 1, times the scalar that came.
    const int64_t narrowed = (narrow_ ? head_ * bytes_ : 0) + (task_.on_gpu ? head_ * kFloat : 0);
    moment.parts.push_back({"gradients of head and hidden states", loss_.gradient_bytes + narrowed, ""});
    moment.parts.push_back({"backward pass", student_.backward_bytes + Waiting(),
                            task_.gradient_checkpointing ? "one block, computed again" : "one block's"});
    return moment;
  }

  // The embedding's gradient; with a tied head that of the head has been waiting for it.
  Moment EndOfBackward() const {
    Moment moment{"when the backward pass ends", State(), 0};
    const int64_t embedding = (task_.student.tie_word_embeddings ? 2 : 1) * head_ * bytes_;
    moment.parts.push_back({"gradient of the embedding", embedding + OwnBucket(), ""});
    moment.parts.push_back({"backward pass", Waiting(), "gradients of one bucket"});
    return moment;
  }

  Moment Saving() const {
    Moment moment{"when rank 0 saves a checkpoint", State(), 0};
    moment.of_one_rank = 3 * all_ * kFloat;
    moment.parts.push_back({"checkpoint", moment.of_one_rank, "masters and moments of all ranks, on rank 0 alone"});
    return moment;
  }

  const MemoryPlanTask& task_;
  const int stage_, shards_;
  const int64_t bytes_;                  // of an element of the working weights
  const bool narrow_ = bytes_ < kFloat;  // float32 masters beside them
  const std::vector<int64_t> elements_;
  const ShardPlan plan_;
  int64_t all_ = 0, own_ = 0;  // elements of the student, and those of which a rank keeps the optimizer's state
  int64_t head_ = 0;
  SharedOut shared_;  // in stage 3
  DecoderMemory student_, teacher_;
  LossMemory loss_;
};

}  // namespace

int64_t DataSetBytes(int64_t file_bytes) { return file_bytes + file_bytes / 3 * (4 + 1); }

int64_t MemoryPlan::rank_bytes() const { return SumOf(parts); }

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryPlanTask& task) {
  DISTILL_RETURN_IF_ERROR(CheckTask(task));
  const auto student = DecoderShapes(task.student, torch::kFloat32);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<TrainedParameter> parameters, CollectParameters(*student, {}));
  const bool shares_blocks = task.zero_stage == 3 && task.world_size > 1;
  return Planner(task, parameters, shares_blocks ? BlocksOf(*student, parameters) : std::vector<int64_t>()).Plan();
}

}  // namespace distill
