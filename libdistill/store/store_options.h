// How stores behind a network are read. Where S3 is and who asks comes from the environment and the files of the AWS
// tools (aws_credentials.h; AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL for another server).
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"

namespace distill {

struct StoreOptions {
  double stall_seconds = 20;
  int64_t attempts = 8;
  int64_t read_ahead = 4;
  int64_t range_mib = 8;
  std::string cache_folder = "";
  int64_t cache_gib = 100;
};

template <class V>
void Describe(V& v, StoreOptions& o) {
  v.Group("Stores");
  v.Field("store_stall_seconds", o.stall_seconds, AtLeast(1),
          "an answer of a store of which no byte came for so long is cut, and asked for again");
  v.Field("store_attempts", o.attempts, Within(1, 100),
          "at a request to a store, with pauses that grow, before it fails");
  v.Field("store_read_ahead", o.read_ahead, Within(0, 64),
          "ranges of a file that are fetched at a time; 0: none ahead");
  v.Field("store_range_mib", o.range_mib, Within(1, 1024), "size of such a range, in MiB");
  v.Field("store_cache_dir", o.cache_folder,
          "local folder for copies of what was read from a store behind a network; empty: none is kept")
      .Path();
  v.Field("store_cache_gib", o.cache_gib, AtLeast(1), "how large that folder may become, in GiB");
}

}  // namespace distill
