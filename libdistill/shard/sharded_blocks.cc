#include "libdistill/shard/sharded_blocks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

constexpr size_t kPlaces = 2;
// Buckets begin at pages, whatever their type.
constexpr int64_t kAlignment = 4096;  // elements

// Elements of a place that a bucket takes.
int64_t InPlace(const ShardPlan& plan, size_t b) { return RoundUp(plan.padded(b), kAlignment); }

// Memory that the tensor keeps alive.
c10::DataPtr Owning(const torch::Tensor& memory) {
  auto* kept = new torch::Tensor(memory);
  return {memory.data_ptr(), kept, [](void* tensor) { delete static_cast<torch::Tensor*>(tensor); }, memory.device()};
}

}  // namespace

absl::StatusOr<std::shared_ptr<ShardedBlocks>> ShardedBlocks::Create(Communicator& comm,
                                                                     const std::vector<TrainedParameter>& parameters,
                                                                     const std::vector<int64_t>& block_of,
                                                                     size_t blocks_of_pass, const ShardPlan& plan,
                                                                     const Options& options) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> own, comm.Split(/*color=*/0, /*key=*/comm.rank()));
  std::shared_ptr<ShardedBlocks> blocks(
      new ShardedBlocks(plan, std::move(own), options.device, block_of, blocks_of_pass));
  DISTILL_ASSIGN_OR_RETURN(
      blocks->places_, AllocateAnyway(*blocks->comm_, SizesOf(plan, block_of).places, options.dtype, options.device));
  // What one rank fails at alone ends the others' calls, where there are any.
  DISTILL_RETURN_IF_ERROR(Agree(*blocks->comm_, OrAbort(*blocks->comm_, [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(blocks->values_,
                             TakeValues(*blocks->comm_, blocks->plan_, options, parameters, blocks->blocks_));
    blocks->stream_ = std::make_shared<const HeldStream>(options.device);
    DISTILL_ASSIGN_OR_RETURN(blocks->thread_, AsyncCalls::Start(blocks->comm_.get()));
    return absl::OkStatus();
  })));
  return blocks;
}

ShardedBlocks::ShardedBlocks(const ShardPlan& plan, std::unique_ptr<Communicator> comm, c10::Device device,
                             const std::vector<int64_t>& block_of, size_t blocks)
    : plan_(plan), device_(device), blocks_(blocks), comm_(std::move(comm)) {
  for (size_t b = 0; b < plan_.num_buckets(); ++b) {
    const int64_t of = block_of[plan_.members()[b][0]];
    if (of < 0) continue;
    Block& block = blocks_[static_cast<size_t>(of)];
    block.buckets.push_back(b);
    block.begin.push_back(block.elements);
    block.elements += InPlace(plan_, b);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (IsSharded(i)) sharded_.push_back(i);
  }
  launched_ = acquired_ = turns();
}

ShardedBlocks::~ShardedBlocks() = default;

ShardedBlocks::Sizes ShardedBlocks::SizesOf(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  Sizes sizes;
  std::map<int64_t, int64_t> blocks;  // elements of each
  for (size_t b = 0; b < plan.num_buckets(); ++b) {
    const int64_t of = block_of[plan.members()[b][0]];
    if (of < 0) continue;
    sizes.shares += plan.slice(b);
    const int64_t block = blocks[of] += InPlace(plan, b);
    sizes.places = std::max(sizes.places, static_cast<int64_t>(kPlaces) * block);
  }
  return sizes;
}

int64_t ShardedBlocks::held_bytes() const {
  auto bytes = static_cast<int64_t>(places_.nbytes());
  for (const torch::Tensor& share : values_.shares) {
    if (share.defined()) bytes += static_cast<int64_t>(share.nbytes());
  }
  return bytes;
}

size_t ShardedBlocks::Turn(int64_t k) const {
  const auto blocks = static_cast<int64_t>(sharded_.size());
  return sharded_[static_cast<size_t>(k < blocks ? k : 2 * blocks - 2 - k)];
}

int64_t ShardedBlocks::turns() const {
  const auto blocks = static_cast<int64_t>(sharded_.size());
  return with_gradients_ ? 2 * blocks - 1 : blocks;
}

void ShardedBlocks::Refuse(const char* what, size_t block) const {
  throw StatusError(absl::FailedPreconditionError(
      absl::StrCat("a model with sharded weights ", what, " block ", block,
                   " out of turn: each pass runs all blocks in order, and one that takes gradients is followed by its "
                   "backward pass; without one it belongs under torch::NoGradGuard")));
}

void ShardedBlocks::BeginPass(bool with_gradients) {
  if (acquired_ != turns()) Refuse("begins a pass, and the one before ended at", Turn(acquired_));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].is_here) Refuse("begins a pass, and has not ended", i);
  }
  if (round_.has_value()) RefuseOthers(with_gradients);
  with_gradients_ = with_gradients;
  turned_ = false;
  launched_ = acquired_ = 0;
  LaunchNext();
}

void ShardedBlocks::RefuseOthers(bool with_gradients) {
  const bool is_second = std::exchange(round_->has_begun, true);
  if (!is_second && with_gradients == round_->with_gradients) return;
  throw StatusError(absl::FailedPreconditionError(
      absl::StrCat("a model with sharded weights is run ",
                   is_second        ? "a second time for a micro-batch: ranks gather its blocks together, so each has "
                                      "to run it once for every micro-batch with labels"
                   : with_gradients ? "with gradients, and is not trained here: run it under torch::NoGradGuard"
                                    : "without gradients, and is trained: run it without torch::NoGradGuard")));
}

void ShardedBlocks::LaunchNext() {
  if (launched_ == turns()) return;
  const size_t block = Turn(launched_++);
  blocks_[block].place = next_place_;
  blocks_[block].gather = StartGather(block);
}

void ShardedBlocks::Acquire(size_t index) {
  if (index >= blocks_.size()) Refuse("runs", index);
  if (!IsSharded(index)) return;
  Block& block = blocks_[index];
  if (block.is_here) return;  // the last one, in the backward pass
  if (acquired_ == turns() || Turn(acquired_) != index) Refuse("runs", index);
  if (const absl::Status gathered = block.gather->Wait(); !gathered.ok()) throw StatusError(gathered);
  block.gather.reset();
  Point(block, {Place(block, block.place).data_ptr(), device_});
  block.is_here = true;
  ++acquired_;
  LaunchNext();  // into the place that the block before has left
}

void ShardedBlocks::Release(size_t index) {
  if (!IsSharded(index)) return;
  if (with_gradients_ && !turned_ && index == sharded_.back()) {
    turned_ = true;  // the backward pass begins with it
    return;
  }
  if (!blocks_[index].is_here) Refuse("leaves", index);
  Point(blocks_[index], {nullptr, device_});
  blocks_[index].is_here = false;
}

bool ShardedBlocks::EndRound() {
  const bool has_begun = std::exchange(round_, std::nullopt)->has_begun;
  const auto is_here = [](const Block& block) { return block.is_here; };
  return has_begun && acquired_ == turns() && std::none_of(blocks_.begin(), blocks_.end(), is_here);
}

void ShardedBlocks::SkipPass(bool with_gradients) {
  BeginPass(with_gradients);
  while (launched_ < turns()) LaunchNext();
  for (Block& block : blocks_) block.gather.reset();
  acquired_ = turns();
}

void ShardedBlocks::SetErrorContext(std::function<std::string()> context) {
  const auto set = [context = std::move(context)](Communicator& comm) {
    comm.SetErrorContext(context);
    return absl::OkStatus();
  };
  thread_->Run(set).Wait().IgnoreError();  // not beside a call that may be about to ask
}

void ShardedBlocks::Point(Block& block, c10::DataPtr memory) {
  const bool is_here = memory.get() != nullptr;
  block.storage->set_data_ptr_noswap(std::move(memory));
  for (const ShardedBlock::Weight& weight : block.weights) {
    weight.parameter.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(is_here ? block.storage : weight.away));
  }
}

torch::Tensor ShardedBlocks::Place(const Block& block, size_t place) const {
  return places_.narrow(0, static_cast<int64_t>(place) * (places_.numel() / static_cast<int64_t>(kPlaces)),
                        block.elements);
}

AsyncCall ShardedBlocks::StartGather(size_t block) {
  const size_t place = std::exchange(next_place_, (next_place_ + 1) % kPlaces);
  // Behind it: not before the block that had this place was computed, nor before the shares were written.
  return thread_->Run(
      BehindStream(stream_, [this, block, place](Communicator& comm) { return Gather(comm, block, place); }));
}

absl::Status ShardedBlocks::Gather(Communicator& comm, size_t index, size_t place) const {
  const Block& block = blocks_[index];
  const torch::Tensor there = Place(block, place);
  for (size_t k = 0; k < block.buckets.size(); ++k) {
    const torch::Tensor& share = values_.shares[block.buckets[k]];
    const torch::Tensor padded = there.narrow(0, block.begin[k], plan_.padded(block.buckets[k]));
    torch::Tensor mine = padded.narrow(0, comm.rank() * share.numel(), share.numel());
    if (mine.is_cpu()) {
      // Not torch's copy, which would give this thread a pool of threads of its own.
      std::memcpy(mine.data_ptr(), share.data_ptr(), share.nbytes());
    } else {
      mine.copy_(share);
    }
    DISTILL_RETURN_IF_ERROR(AllGatherSlices(comm, padded));
  }
  return absl::OkStatus();
}

void ShardedBlocks::Lead(std::function<absl::Status(size_t block)> announce) {
  announce_ = std::move(announce);
  if (announce_ == nullptr) DropWhole();
}

void ShardedBlocks::Fetch(size_t index) {
  if (whole_) return;
  if (announce_ == nullptr) {
    throw StatusError(absl::FailedPreconditionError(
        "weights are read that are sharded over the ranks: the trainer saves them, in Fit"));
  }
  DropWhole();
  const size_t place = next_place_;
  absl::Status fetched = announce_(index);
  if (fetched.ok()) fetched = FollowFetch(index);
  if (!fetched.ok()) throw StatusError(fetched);
  Point(blocks_[index], {Place(blocks_[index], place).data_ptr(), device_});
}

absl::Status ShardedBlocks::FollowFetch(size_t block) {
  if (block >= blocks_.size()) return absl::InternalError(absl::StrCat("a fetch of block ", block));
  return OrAbort(*comm_, [&] { return StartGather(block).Wait(); });
}

absl::Status ShardedBlocks::GatherWhole(bool keep) {
  absl::Status mine;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    const size_t place = next_place_;
    DISTILL_RETURN_IF_ERROR(StartGather(i).Wait());
    if (!keep || !mine.ok()) continue;
    mine = CatchTorch([&] { Point(block, Owning(Place(block, place).clone())); });
  }
  mine = Agree(*comm_, mine);
  whole_ = keep && mine.ok();
  if (!mine.ok()) DropWhole();
  return mine;
}

void ShardedBlocks::DropWhole() {
  whole_ = false;
  for (Block& block : blocks_) Point(block, {nullptr, device_});
}

}  // namespace distill
