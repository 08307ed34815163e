#include "libdistill/store/hub_publish.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_answer.h"
#include "libdistill/store/hub_lfs.h"
#include "libdistill/store/hub_lookup.h"
#include "libdistill/store/sha_hash.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr int kMostRounds = 5;         // commits that come to stand on one of somebody else's
constexpr int64_t kSampleBytes = 512;  // by which the hub tells text from other bytes
constexpr size_t kFilesAtOnce = 256;   // of a request, as huggingface_hub has it
constexpr int kMostUploadRedirects = 4;

// A file on its way.
struct Item {
  explicit Item(const FileToPublish* file) : given(file) {}
  const FileToPublish* given;
  bool is_large = false;    // goes by LFS
  bool is_ignored = false;  // by the repository's .gitignore
  std::string there;        // the hash of the branch's file of this name; empty: it has none
  std::string sha256;       // once it was needed
};

std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

class Publisher {
 public:
  Publisher(HubClient& hub, const HubPublication& publication)
      : hub_(hub), publication_(publication), repository_(publication.repository) {
    for (const FileToPublish& file : publication.files) items_.emplace_back(&file);
  }

  absl::StatusOr<PublishedCommit> Run();

 private:
  const HubRepository& repository() const { return repository_; }
  std::string ApiPath(absl::string_view what) const {
    return absl::StrCat("/api/", repository().Plural(), "/", repository().name, "/", what, "/",
                        PercentEncode(repository().revision, /*keep_slashes=*/false));
  }
  absl::StatusOr<HttpResponse> Post(const char* action, const std::string& path, const std::string& body,
                                    const char* type = "application/json", std::vector<int> also_fine = {});

  absl::Status FindOrMakeRepository();
  absl::StatusOr<HubHead> HeadOrMade();
  absl::Status AskAbout(size_t begin, size_t end);
  absl::StatusOr<std::vector<Item*>> Changed(const std::string& head);
  absl::StatusOr<bool> MayReplace(const Item& item, const std::string& head);
  absl::StatusOr<std::string> OwnHash(Item& item);
  std::vector<std::string> Outdated(const HubHead& head) const;
  absl::Status SendLarge(const std::vector<Item*>& items);
  absl::StatusOr<std::string> CommitBody(const std::string& head, const std::vector<Item*>& items,
                                         const std::vector<std::string>& outdated);

  HubClient& hub_;
  const HubPublication& publication_;
  HubRepository repository_;  // by its name now
  std::vector<Item> items_;
  PublishedCommit published_;
};

absl::StatusOr<HttpResponse> Publisher::Post(const char* action, const std::string& path, const std::string& body,
                                             const char* type, std::vector<int> also_fine) {
  HubRequest request{.action = action, .repository = repository(), .method = "POST", .path = path};
  request.headers = {{"content-type", type}};
  request.body = body;
  request.also_fine = std::move(also_fine);
  // Of two that make repositories for the same owner at a time, the hub refuses one for a moment.
  request.check = [](const HttpResponse& answer) {
    return answer.status == 409 && absl::StrContains(answer.body, "operation is in progress")
               ? absl::UnavailableError(answer.body)
               : absl::OkStatus();
  };
  return hub_.Send(request);
}

// One of an old name is not made again: what was read by that name would be gone from there.
absl::Status Publisher::FindOrMakeRepository() {
  absl::StatusOr<std::string> name = LookUpName(hub_, repository());
  if (name.ok()) {
    repository_.name = *std::move(name);
    return absl::OkStatus();
  }
  // PermissionDenied stands for a repository that is not there, too.
  if (!absl::IsNotFound(name.status()) && !absl::IsPermissionDenied(name.status())) return name.status();
  const std::vector<std::string> parts = absl::StrSplit(repository().name, absl::MaxSplits('/', 1));
  json body;
  body["organization"] = parts.front();
  body["name"] = parts.back();
  body["type"] = "model";
  if (publication_.is_private) body["visibility"] = "private";
  return Post("create", "/api/repos/create", Dump(body), "application/json", {409}).status();
}

absl::StatusOr<HubHead> Publisher::HeadOrMade() {
  absl::StatusOr<HubHead> head = LookUpBranch(hub_, repository());
  if (!absl::IsNotFound(head.status())) return head;
  DISTILL_RETURN_IF_ERROR(Post("make the branch of", ApiPath("branch"), "{}", "application/json", {409}).status());
  return LookUpBranch(hub_, repository());
}

absl::StatusOr<std::string> Publisher::OwnHash(Item& item) {
  if (!item.is_large) {
    DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*item.given->file));
    return GitHashOf(bytes);
  }
  if (item.sha256.empty()) {
    DISTILL_ASSIGN_OR_RETURN(item.sha256, Sha256OfFile(item.given->file));
  }
  return item.sha256;
}

absl::StatusOr<bool> Publisher::MayReplace(const Item& item, const std::string& head) {
  HubRequest request{.action = "read", .repository = repository(), .file = item.given->name};
  request.path = absl::StrCat(repository().Page(), "/resolve/", head, "/", PercentEncode(item.given->name, true));
  request.max_redirects = kMostUploadRedirects;
  const absl::StatusOr<HttpResponse> answer = hub_.Send(request);
  if (absl::IsNotFound(answer.status())) return true;
  if (!answer.ok()) return answer.status();
  return absl::StrContains(answer->body, item.given->replaces_only);
}

absl::StatusOr<json> AboutFiles(const std::vector<Item>& items, size_t begin, size_t end) {
  json files = json::array();
  for (size_t i = begin; i < end; ++i) {
    const ReadableFile& file = *items[i].given->file;
    std::string sample(static_cast<size_t>(std::min(kSampleBytes, file.size())), '\0');
    DISTILL_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(sample)));
    json about;
    about["path"] = items[i].given->name;
    about["sample"] = absl::Base64Escape(sample);
    about["size"] = file.size();
    files.push_back(std::move(about));
  }
  json body;
  body["files"] = std::move(files);
  return body;
}

// Asks how items [begin, end) go, and what the branch has under their names.
absl::Status Publisher::AskAbout(size_t begin, size_t end) {
  DISTILL_ASSIGN_OR_RETURN(const json body, AboutFiles(items_, begin, end));
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, Post("publish to", ApiPath("preupload"), Dump(body)));
  DISTILL_ASSIGN_OR_RETURN(const json about, ParseHubAnswer(absl::StrCat("publish to ", repository().name), answer));
  std::map<std::string, const json*> by_name;
  if (const auto files = about.find("files"); files != about.end() && files->is_array()) {
    for (const json& file : *files) by_name[TextIn(file, "path")] = &file;
  }
  for (size_t i = begin; i < end; ++i) {
    Item& item = items_[i];
    const auto found = by_name.find(item.given->name);
    if (found == by_name.end()) {
      return absl::InternalError(absl::StrCat("cannot publish to ", repository().name,
                                              ": the hub does not say how to send ", item.given->name));
    }
    const json& file = *found->second;
    const auto ignored = file.find("shouldIgnore");
    item.is_ignored = ignored != file.end() && ignored->is_boolean() && ignored->get<bool>();
    item.is_large = TextIn(file, "uploadMode") == "lfs" && item.given->file->size() > 0;  // a store takes no empty one
    item.there = TextIn(file, "oid");
  }
  return absl::OkStatus();
}

absl::Status IgnoredError(const HubRepository& repository, const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat("cannot publish to ", repository.name,
                                                    ": the .gitignore of the repository leaves out ", name,
                                                    ", which is part of what is published; remove the line that does"));
}

// The files whose bytes are not in the branch yet.
absl::StatusOr<std::vector<Item*>> Publisher::Changed(const std::string& head) {
  for (size_t begin = 0; begin < items_.size(); begin += kFilesAtOnce) {
    DISTILL_RETURN_IF_ERROR(AskAbout(begin, std::min(items_.size(), begin + kFilesAtOnce)));
  }
  std::vector<Item*> changed;
  published_.kept.clear();
  for (Item& item : items_) {
    DISTILL_ASSIGN_OR_RETURN(const std::string own, OwnHash(item));
    if (own == item.there) continue;
    // The hub would take the commit, and leave the file out of it.
    if (item.is_ignored) return IgnoredError(repository(), item.given->name);
    bool may_replace = true;
    if (!item.there.empty() && !item.given->replaces_only.empty()) {
      DISTILL_ASSIGN_OR_RETURN(may_replace, MayReplace(item, head));
    }
    if (may_replace) changed.push_back(&item);
    if (!may_replace) published_.kept.push_back(item.given->name);
  }
  return changed;
}

// The branch's files that do not belong to what it will hold.
std::vector<std::string> Publisher::Outdated(const HubHead& head) const {
  std::vector<std::string> outdated;
  if (!publication_.is_outdated) return outdated;
  for (const std::string& name : head.files) {
    const bool is_published =
        std::any_of(items_.begin(), items_.end(), [&](const Item& item) { return item.given->name == name; });
    if (!is_published && publication_.is_outdated(name)) outdated.push_back(name);
  }
  return outdated;
}

// One line of JSON for what the commit is, and one for each file.
absl::StatusOr<std::string> Publisher::CommitBody(const std::string& head, const std::vector<Item*>& items,
                                                  const std::vector<std::string>& outdated) {
  json header;
  header["key"] = "header";
  header["value"]["summary"] = publication_.summary;
  header["value"]["description"] = publication_.description;
  header["value"]["parentCommit"] = head;
  std::string body = Dump(header) + "\n";
  for (Item* item : items) {
    json line;
    json& value = line["value"];
    value["path"] = item->given->name;
    if (item->is_large) {
      line["key"] = "lfsFile";
      value["algo"] = "sha256";
      value["oid"] = item->sha256;
      value["size"] = item->given->file->size();
    } else {
      DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(*item->given->file));
      line["key"] = "file";
      value["encoding"] = "base64";
      value["content"] = absl::Base64Escape(bytes);
    }
    absl::StrAppend(&body, Dump(line), "\n");
  }
  for (const std::string& name : outdated) {
    json line;
    line["key"] = "deletedFile";
    line["value"]["path"] = name;
    absl::StrAppend(&body, Dump(line), "\n");
  }
  return body;
}

absl::Status Publisher::SendLarge(const std::vector<Item*>& items) {
  for (Item* item : items) {
    if (!item->is_large) continue;
    LogInfo(absl::StrFormat("sending %s (%.1f MB) to %s, unless it is there", item->given->name,
                            static_cast<double>(item->given->file->size()) * 1e-6, repository().name));
    DISTILL_ASSIGN_OR_RETURN(const int64_t sent,
                             UploadLfsObject(hub_, repository(), {item->given->name, item->sha256, item->given->file}));
    published_.bytes_sent += sent;
  }
  return absl::OkStatus();
}

absl::StatusOr<PublishedCommit> Publisher::Run() {
  DISTILL_RETURN_IF_ERROR(FindOrMakeRepository());
  published_.repository = repository().name;
  absl::Status refused;
  for (int round = 0; round < kMostRounds; ++round) {
    DISTILL_ASSIGN_OR_RETURN(const HubHead head, HeadOrMade());
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Item*> changed, Changed(head.commit));
    std::vector<std::string> outdated = Outdated(head);
    if (changed.empty() && outdated.empty()) {
      published_.commit = head.commit;
      published_.is_new = !refused.ok();  // the answer to our commit was lost
      return published_;
    }
    DISTILL_RETURN_IF_ERROR(SendLarge(changed));
    published_.removed = std::move(outdated);
    DISTILL_ASSIGN_OR_RETURN(const std::string body, CommitBody(head.commit, changed, published_.removed));
    const absl::StatusOr<HttpResponse> answer = Post("commit to", ApiPath("commit"), body, "application/x-ndjson");
    if (answer.ok()) {
      DISTILL_ASSIGN_OR_RETURN(const json about,
                               ParseHubAnswer(absl::StrCat("commit to ", repository().name), *answer));
      published_.commit = TextIn(about, "commitOid");
      published_.is_new = true;
      return published_;
    }
    refused = answer.status();
    if (!absl::IsFailedPrecondition(refused)) return refused;
    LogInfo(absl::StrCat(repository().name, " has changed meanwhile; looking again"));
  }
  return absl::AbortedError(absl::StrCat(refused.message(), ": others commit to it all the time"));
}

}  // namespace

absl::StatusOr<PublishedCommit> PublishToHub(HubClient& hub, const HubPublication& publication) {
  return Publisher(hub, publication).Run();
}

}  // namespace distill
