// What distill_plot can be told.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"
#include "libdistill/store/store_options.h"

namespace distill {

struct PlotOptions {
  std::string output;
  std::string title;
  std::string metrics;
  int64_t smooth = 1;
  StoreOptions store;
};

template <class V>
void Describe(V& v, PlotOptions& o) {
  v.Group("Options");
  v.Field(
       "output", o.output,
       "the picture, a PNG file; may be s3://; empty: curves.png in the folder of the run, or for several in the one "
       "where you stand")
      .PathOfAnyStore()
      .Alias("out", "output_file");
  v.Field("title", o.title, "above the picture; empty: the run, or the runs");
  v.Field("metrics", o.metrics,
          "what to draw, loss,accuracy,tokens_per_second say, in this order; empty: all but speeds")
      .TakesList();
  v.Field("smooth", o.smooth, Within(1, 1000000),
          "above 1: of training also the mean of so many records, with the records pale behind it");
  Describe(v, o.store);
}

}  // namespace distill
