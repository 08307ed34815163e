// Files into a repository of the Hugging Face hub, by one commit: who looks sees all of them or none.
//
//   HubPublication publication{.repository = {.name = "org/student"}, .summary = "Publish the student"};
//   publication.files.push_back({"config.json", file});
//   DISTILL_ASSIGN_OR_RETURN(const PublishedCommit commit, PublishToHub(hub, publication));
//
// The repository and its branch are made where they are missing. Files that are there already, with these bytes, are
// left out; where nothing remains there is no commit. Large files go to the store first (hub_lfs.h), so a publication
// that was cut short sends only what is missing when it is repeated. The commit names the one that it was made for: on
// a repository that has changed meanwhile, or has taken the commit although its answer was lost, the hub refuses it,
// and what is there is looked at again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct FileToPublish {
  std::string name;  // its path in the repository
  std::shared_ptr<const ReadableFile> file;
  // Not empty: it takes the place of a file of this name only where that one has this text in it. So a page that a
  // person has written stays.
  std::string replaces_only = {};
};

struct HubPublication {
  HubRepository repository = {};  // `revision`: a branch
  bool is_private = false;        // where the repository is made now
  std::string summary;            // the commit's first line
  std::string description = {};
  std::vector<FileToPublish> files = {};
  // Of the branch's other files: whether the same commit removes it, since it would be read in place of these.
  std::function<bool(const std::string& name)> is_outdated = nullptr;
};

struct PublishedCommit {
  std::string repository;                 // its name now: another one than was given where it was renamed
  std::string commit;                     // of 40 letters: the newest of the branch
  bool is_new = false;                    // false: all was there already
  int64_t bytes_sent = 0;                 // to the store
  std::vector<std::string> kept = {};     // files of other people's that `replaces_only` left as they were
  std::vector<std::string> removed = {};  // that were outdated
};

// Blocks. The errors are those of HubClient::Send; PermissionDenied also where the hub takes no more of the owner's
// files, FailedPrecondition where the repository's .gitignore leaves one of the files out, DataLoss where a file
// changed meanwhile, Aborted where others committed each time before this one could. After any of them nobody sees a
// part of the files.
[[nodiscard]] absl::StatusOr<PublishedCommit> PublishToHub(HubClient& hub, const HubPublication& publication);

}  // namespace distill
