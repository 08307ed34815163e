#include "libdistill/data/row_dataset.h"

#include <utility>
#include <vector>

#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::StatusOr<bool> HaveRowsByThemselves(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (IsPipe(name)) return false;  // nothing of it may be read to find out
    DISTILL_ASSIGN_OR_RETURN(const bool has, HasRowsByThemselves(name));
    if (!has) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Dataset>> OpenRowDataset(const std::string& path, MakeSample make,
                                                        const RowDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, options.split));
  DISTILL_ASSIGN_OR_RETURN(const bool are_at_random, HaveRowsByThemselves(names));
  if (!are_at_random) return OpenStreamedDataset(path, std::move(make), options);
  DISTILL_RETURN_IF_ERROR(CheckCanBeReadByRows(options.rows));
  return OpenJsonlDataset(path, std::move(make),
                          {.split = options.split,
                           .columns = options.rows.columns,
                           .num_samples = options.num_samples,
                           .length_of = options.length_of,
                           .index_folder = options.index_folder,
                           .threads = options.threads});
}

}  // namespace distill
