// Where a trained model goes: options of programs that publish it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"

namespace distill {

// fsx: output_dir, a local folder, one of FSx, or s3://.
enum class SaveLocation { kAuto, kFsx, kHub, kBoth };
constexpr EnumNames<SaveLocation, 4> NamesOf(SaveLocation) {
  return {{{"auto", SaveLocation::kAuto},
           {"fsx", SaveLocation::kFsx},
           {"hub", SaveLocation::kHub},
           {"both", SaveLocation::kBoth}}};
}

struct PublishOptions {
  SaveLocation save_location = SaveLocation::kAuto;
  std::string hub_location;  // "org/name"
  std::string hub_revision = "main";
  bool hub_private_repo = false;
};

// Whether the hub gets the model, and whether output_dir keeps it.
bool PublishesToHub(const PublishOptions& options);
bool KeepsInFolder(const PublishOptions& options);

// InvalidArgument: no hub_location where it is needed, or one that is no name on the hub.
[[nodiscard]] absl::Status CheckPublishOptions(const PublishOptions& options);

template <class V>
void Describe(V& v, PublishOptions& o) {
  v.Group("Publishing");
  v.Field("hub_location", o.hub_location,
          "repository of the Hugging Face hub to publish the trained model in, as ORG/NAME; made when it is not there")
      .Alias("hub_model_id", "push_to_hub_model_id", "hub_repo_id")
      .Similar("repo_id", "hub_repo", "push_to_hub_organization");
  v.Field(
       "save_location", o.save_location,
       "where the trained model goes: fsx (output_dir: a local folder, FSx or s3://), hub, or both; auto: both where "
       "hub_location is set, else fsx")
      .AliasOf("push_to_hub", {{"true", "both"}, {"false", "fsx"}});
  v.Field("hub_revision", o.hub_revision, "branch to publish in; made when it is not there");
  v.Field("hub_private_repo", o.hub_private_repo, "a repository that is made now is private").Alias("hub_private");
  v.Together([&o] { return CheckPublishOptions(o); });
}

}  // namespace distill
