#include "libdistill/task/make_task.h"

namespace distill {
namespace {

int64_t CountOf(const TensorBatch& batch, const std::string& term) { return batch.Count(term); }
int64_t CountOf(const TokenBatch& batch, const std::string&) { return batch.num_loss_tokens(); }
int64_t TokensOf(const TensorBatch&) { return 0; }
int64_t TokensOf(const TokenBatch& batch) { return batch.num_tokens(); }
void LoadBatch(TensorBatch& batch, const c10::Stream* copies) { batch.Load(copies); }
void LoadBatch(TokenBatch& batch, const c10::Stream* copies) {
  if (copies != nullptr && batch.num_loss_tokens() > 0) batch.sent = Send(batch, *copies);
}

template <typename B>
class CallableObjective : public Objective<B> {
 public:
  explicit CallableObjective(TaskParts<B> parts) : parts_(std::move(parts)) {}

  std::vector<TermWeight> LossTerms() const override { return parts_.loss_terms; }
  std::vector<std::string> Reported() const override { return parts_.reported; }
  absl::StatusOr<Fields> Fingerprint() const override { return parts_.fingerprint; }
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module&) const override { return parts_.trained_rows; }
  absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override {
    return parts_.save ? parts_.save(folder) : Objective<B>::SaveModel(module, folder);
  }
  bool saves_in_order() const override { return !parts_.save; }  // a callable may look at any weight
  NamedBytes HeldMemory(c10::DeviceType type) const override { return MemoryOfTeacher(parts_.teacher.get(), type); }
  std::vector<int64_t> Counts(const B& batch) const override {
    std::vector<int64_t> counts;
    for (const TermWeight& term : parts_.loss_terms) counts.push_back(CountOf(batch, term.name));
    return counts;
  }
  int64_t Tokens(const B& batch) const override { return TokensOf(batch); }
  void Prepare(B& batch, const c10::Stream* copies) const override { LoadBatch(batch, copies); }
  Losses Forward(const B& batch, const PassScale&) const override { return parts_.forward(batch); }
  bool Evaluates(const B& batch) const override {
    return parts_.evaluate ? !batch.sample_ids.empty() : Objective<B>::Evaluates(batch);
  }
  absl::Status Evaluate(const B& batch, Metrics& metrics) const override {
    if (!parts_.evaluate) return Objective<B>::Evaluate(batch, metrics);
    parts_.evaluate(batch, metrics);
    return absl::OkStatus();
  }
  absl::StatusOr<MetricValues> Summarize(const MetricValues& means, const Predictions& predictions) const override {
    absl::StatusOr<MetricValues> values = Objective<B>::Summarize(means, predictions);
    if (!values.ok() || !parts_.summarize) return values;
    DISTILL_ASSIGN_OR_RETURN(const MetricValues more, parts_.summarize(predictions));
    for (const auto& [name, value] : more) values->insert_or_assign(name, value);
    return values;
  }

 private:
  const TaskParts<B> parts_;
};

}  // namespace

std::unique_ptr<BatchTask<TensorBatch>> MakeTask(Batches<TensorBatch> batches, TaskParts<TensorBatch> parts) {
  return std::make_unique<BatchTask<TensorBatch>>(std::move(batches),
                                                  std::make_shared<CallableObjective<TensorBatch>>(std::move(parts)));
}

std::unique_ptr<BatchTask<TokenBatch>> MakeTask(TokenBatches batches, TaskParts<TokenBatch> parts) {
  return std::make_unique<BatchTask<TokenBatch>>(std::move(batches),
                                                 std::make_shared<CallableObjective<TokenBatch>>(std::move(parts)));
}

Batches<TensorBatch> MakeBatches(DataSharder sharder, Batches<Batch>::Collator collate, Fields collator_fields) {
  const auto load = [collate = std::move(collate)](const DealtRows& rows) -> absl::StatusOr<TensorBatch> {
    DISTILL_ASSIGN_OR_RETURN(Batch batch, collate(rows));
    return TensorBatch(std::move(batch));
  };
  return Batches<TensorBatch>(std::move(sharder), load, std::move(collator_fields));
}

}  // namespace distill
