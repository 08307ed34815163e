// The options of a Loader (data/loader.h).
#pragma once

#include <cstdint>

#include "libdistill/core/describe.h"

namespace distill {

struct LoaderOptions {
  // Threads that read samples and make batches of them. The default is that of data in a store far away: so many reads
  // are under way at once. Where samples are in memory one thread would do, and the others sleep.
  int64_t num_workers = 4;
  // Micro-batches that are made ahead for each of these threads, as in PyTorch's DataLoader; but always a whole step.
  int64_t prefetch_factor = 2;
};

template <class V>
void Describe(V& v, LoaderOptions& o) {
  v.Group("Data");
  v.Field("dataloader_num_workers", o.num_workers, Within(0, 1024),
          "threads that read samples and make batches ahead; 0: none, each step makes its own")
      .Alias("num_dataloader_workers", "num_workers", "data_loader_num_workers");
  v.Field("dataloader_prefetch_factor", o.prefetch_factor, Within(1, 1 << 20),
          "micro-batches that are made ahead for each of them; a whole step in any case")
      .Alias("prefetch_factor");
}

}  // namespace distill
