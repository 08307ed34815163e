// How data sets read rows: what their columns are called, and what to do about rows that cannot be used.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"

namespace distill {

enum class BadRows {
  kRefuse,  // the data set is refused
  kSkip,    // they are left out, and a warning says so
};

constexpr EnumNames<BadRows, 2> NamesOf(BadRows) { return {{{"refuse", BadRows::kRefuse}, {"skip", BadRows::kSkip}}}; }

struct RowOptions {
  std::string columns = "";  // as in column_names.h
  // What the columns of CSV files without a line of names are called, separated by commas; empty: they have that line.
  std::string csv_columns = "";
  BadRows bad_rows = BadRows::kRefuse;
  int64_t max_bad_rows = 100;  // of one data set, with kSkip
};

template <class V>
void Describe(V& v, RowOptions& o) {
  v.Group("Data");
  v.Field("dataset_columns", o.columns,
          "what columns of the data are called, where it is not as libdistill names them: messages=chat, answer=reply");
  v.Field("csv_columns", o.csv_columns,
          "of CSV and TSV files whose first line is a row already: the names of their columns, as label,title,content")
      .TakesList();
  v.Field(
      "bad_rows", o.bad_rows,
      "what to do about rows that cannot be used (broken JSON or UTF-8, a field missing or wrong, no answer, refused "
      "by chat template or tokenizer): end the job, or leave them out with a warning");
  v.Field("max_bad_rows", o.max_bad_rows, AtLeast(0), "with bad_rows skip, more of them in one data set end the job");
}

}  // namespace distill
