// The rows of a data set as token samples, with all that these come from: what a folder of tokens (token_builder.h) and
// the token cache (token_cache.h) are made of, whatever the rows hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/data/token_folder.h"

namespace distill {

struct TokenSourceOptions {
  std::string path = "";   // files of rows (row_files.h)
  std::string split = "";  // of a folder
  RowOptions rows = {};
  int64_t num_rows = 0;  // only the first so many usable ones; 0: all
  TokenRecipe recipe = {};
};

class TokenSource {
 public:
  explicit TokenSource(TokenSourceOptions options) : options_(std::move(options)) {}
  virtual ~TokenSource() = default;

  const TokenSourceOptions& options() const { return options_; }

  // Hands over the samples, one after the other, behind what was read so far. `on_chunk`, which may be empty, is called
  // where Progress() could be resumed from; its errors end it. Other errors are those of the data set.
  [[nodiscard]] virtual absl::Status ForEach(absl::FunctionRef<void(TokenSample sample)> on_sample,
                                             const std::function<absl::Status()>& on_chunk = {}) = 0;
  // How far the rows were read, and what became of them, as JSON; and back to there. DataLoss: it is no such text.
  virtual std::string Progress() const = 0;
  [[nodiscard]] virtual absl::Status Restore(absl::string_view progress) = 0;
  virtual const RowsRead& rows_read() const = 0;
  // The same for people: "rows 20000, used 19998".
  virtual std::string Summary() const = 0;

 private:
  const TokenSourceOptions options_;
};

}  // namespace distill
