#include "examples/polarity/reviews.h"

#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/task/make_task.h"

namespace distill {
namespace {

LabelledTextOptions HowToLoad(const PolarityOptions& options, bool with_token_types) {
  LabelledTextOptions how;
  how.text_columns = TextColumns(options);
  // One text is no pair.
  how.form = how.text_columns.size() == 1 ? TextsForm::kJoined : options.text_form;
  how.delimiter = options.text_delimiter;
  how.label_column = options.label_column;
  how.labels = LabelNames(options);
  how.first_label = options.first_label;
  how.add_special_tokens = true;
  how.with_token_types = with_token_types && how.form == TextsForm::kPair;
  how.max_length = options.shard.max_length;
  how.rows = options.rows;
  how.num_threads = options.preprocessing_num_workers > 0 ? options.preprocessing_num_workers : at::get_num_threads();
  return how;
}

absl::StatusOr<LabelledTextDataset> Load(const char* option, const std::string& path, const Tokenizer& tokenizer,
                                         const LabelledTextOptions& how) {
  absl::StatusOr<LabelledTextDataset> data = LoadLabelledTextDataset(path, tokenizer, how);
  if (!data.ok()) return Annotate(data.status(), option);
  LogInfo(absl::StrCat(option, ": ", data->summary));
  return data;
}

}  // namespace

absl::StatusOr<Reviews> LoadReviews(const PolarityOptions& options, const Tokenizer& tokenizer, bool with_token_types) {
  LabelledTextOptions how = HowToLoad(options, with_token_types);
  Reviews reviews;
  how.split = options.dataset_split;
  how.num_samples = options.max_train_samples;
  DISTILL_ASSIGN_OR_RETURN(reviews.train, Load("dataset_name", options.dataset_name, tokenizer, how));
  if (options.eval_dataset_name.empty()) return reviews;
  how.split = options.eval_split;
  how.num_samples = options.max_eval_samples;
  DISTILL_ASSIGN_OR_RETURN(reviews.held_out, Load("eval_dataset_name", options.eval_dataset_name, tokenizer, how));
  return reviews;
}

absl::StatusOr<Batches<TensorBatch>> ShardReviews(const LabelledTextDataset& reviews, const World& world,
                                                  const ShardOptions& options, const Tokenizer& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(reviews.samples, world.rank, world.world_size, options));
  const double pad_id = tokenizer.TokenToId(tokenizer.pad_token()).value_or(0);
  return MakeBatches(std::move(sharder), [pad_id](const DealtRows& rows) {
    std::vector<Padding> padded = {{"ids", pad_id}};
    if (!rows.empty() && rows[0][0].tensors.count("token_types") > 0) padded.push_back({"token_types"});
    return StackRows(rows, padded);
  });
}

}  // namespace distill
