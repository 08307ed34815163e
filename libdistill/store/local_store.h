// Files of a local disk, or of a file system that is mounted, behind the interface of all stores.
#pragma once

#include <memory>
#include <string>

#include "libdistill/store/store.h"

struct stat;

namespace distill {

// What its files read does not change when a file is replaced meanwhile; where one is cut short, reading fails
// (DataLoss).
std::shared_ptr<Store> MakeLocalStore();

// ReadableFile::version of a local file, by what stat says of it.
std::string LocalVersion(const struct stat& about);

}  // namespace distill
