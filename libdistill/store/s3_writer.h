// An object that is written in parts, several of them on their way at a time.
#pragma once

#include <memory>

#include "libdistill/store/file_writer.h"
#include "libdistill/store/s3_client.h"

namespace distill {

// Small objects are put at once; larger ones as an upload in parts, which is aborted where it is not committed.
std::unique_ptr<FileWriter> MakeS3Writer(std::shared_ptr<S3Client> client, S3Address address);

}  // namespace distill
