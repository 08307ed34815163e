// What distill_data can be told.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/data/row_options.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/store_options.h"
#include "libdistill/text/chat_template.h"

namespace distill {

constexpr EnumNames<HubKind, 2> NamesOf(HubKind) {
  return {{{"model", HubKind::kModel}, {"dataset", HubKind::kDataset}}};
}

struct DataOptions {
  std::string split;
  HubKind repo_type = HubKind::kModel;
  std::string revision;
  int64_t rows = 5;
  bool verify = false;
  std::string tokenizer;
  std::string chat_template;
  TrainOn train_on = TrainOn::kAll;
  int64_t max_length = 4096;
  int64_t num_samples = 0;
  int64_t num_threads = 0;
  int64_t batch_rows = 8;
  std::string picture;
  std::string dataset;
  std::string label;
  uint64_t seed = 42;
  RowOptions reading;
  StoreOptions store;
};

template <class V>
void Describe(V& v, DataOptions& o) {
  v.Group("Options");
  v.Field("split", o.split, "of a folder: the files whose names start with it");
  v.Field("repo_type", o.repo_type, "of fetch: what NAME is a name of");
  v.Field("revision", o.revision,
          "of fetch, and of data sets of the hub: a branch, a tag or a commit; empty: main, or that of NAME@REVISION");
  v.Field("rows", o.rows, AtLeast(1), "how many rows to show, or to draw");
  v.Field("verify", o.verify, "of copy: read what was copied back, and compare");
  v.Group("Tokens");
  v.Field("tokenizer", o.tokenizer,
          "folder of a model, or a model of the hub: of tokenize and stats, and of show to see tokens with their loss")
      .Path();
  v.Field("chat_template", o.chat_template, "as distill_llm's");
  v.Field("train_on", o.train_on, "which of a conversation's answers have a loss: all, or the last one alone");
  v.Field("max_length", o.max_length, Within(2, int64_t{1} << 31), "tokens of a sample; longer ones are cut");
  v.Field("num_samples", o.num_samples, AtLeast(0), "only the first so many usable rows; 0: all");
  v.Field("preprocessing_num_workers", o.num_threads, Within(0, 4096),
          "threads that render and tokenize rows; 0: one a core");
  v.Field("per_device_train_batch_size", o.batch_rows, Within(1, int64_t{1} << 20),
          "of stats: rows of a batch, for the share of padding");
  v.Field("picture", o.picture, "of stats: the lengths as a picture, an SVG file").Path();
  v.Field("dataset", o.dataset,
          "of stats of HDF5: whose first dimension is a trial's length; empty: that of the most dimensions");
  v.Group("Samples");
  v.Field("label", o.label, "of sample: the column of which each value is drawn equally often; empty: any rows");
  v.Field("seed", o.seed, "of sample: which rows are drawn");
  Describe(v, o.reading);
  Describe(v, o.store);
}

}  // namespace distill
