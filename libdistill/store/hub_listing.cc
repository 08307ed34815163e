#include "libdistill/store/hub_listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_name.h"
#include "libdistill/store/json_value.h"

namespace distill {
namespace {

constexpr int kFormatVersion = 1;
constexpr int kMostPages = 10'000;
constexpr int kMostListingRedirects = 5;  // of a repository that has got another name

bool IsHex(absl::string_view text, size_t size) {
  return text.size() == size && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

std::string TextMember(const JsonValue& value, absl::string_view name) {
  const JsonValue* const member = value.Find(name);
  return member == nullptr ? "" : member->text;
}

// Names of files come from these fields: nothing but what they must be is believed.
absl::StatusOr<HubFile> Checked(HubFile file, const JsonValue* size) {
  if (!IsSafeHubPath(file.path)) {
    return absl::DataLossError(absl::StrCat("the listing has the path '", file.path,
                                            "', which would lie elsewhere than in its folder: do not use this "
                                            "repository"));
  }
  if (size == nullptr || !size->integer || *size->integer < 0) {
    return absl::DataLossError(absl::StrCat("the listing has no size of ", file.path));
  }
  file.size = *size->integer;
  if (!IsHex(file.git_oid, 40) || (!file.sha256.empty() && !IsHex(file.sha256, 64))) {
    return absl::DataLossError(absl::StrCat("the listing has no hash of ", file.path));
  }
  if (!IsHex(file.xet_hash, 64)) file.xet_hash.clear();
  return file;
}

absl::Status AddPage(const std::string& body, std::vector<HubFile>& files) {
  absl::StatusOr<JsonValue> page = ParseJson(body);
  if (!page.ok() || page->kind != JsonValue::Kind::kArray) {
    return absl::DataLossError("the answer is no listing of files: check that HF_ENDPOINT is a hub");
  }
  for (const JsonValue& entry : page->items) {
    if (TextMember(entry, "type") != "file") continue;
    HubFile file{.path = TextMember(entry, "path"),
                 .git_oid = TextMember(entry, "oid"),
                 .xet_hash = TextMember(entry, "xetHash")};
    if (const JsonValue* large = entry.Find("lfs"); large != nullptr) file.sha256 = TextMember(*large, "oid");
    DISTILL_ASSIGN_OR_RETURN(file, Checked(std::move(file), entry.Find("size")));
    files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

// <https://huggingface.co/api/...?cursor=...>; rel="next": the path below this endpoint; empty where there is none.
absl::StatusOr<std::string> NextPage(const std::string& link, const std::string& endpoint) {
  if (!absl::StrContains(link, "rel=\"next\"")) return "";
  const size_t begin = link.find('<'), end = link.find('>');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  const std::string url = link.substr(begin + 1, end - begin - 1);
  // A mirror may give the address of the hub that it stands for: the same path is asked for at the mirror.
  const size_t host = url.find("://");
  const size_t path = host == std::string::npos ? 0 : url.find('/', host + 3);
  if (path == std::string::npos || !absl::StrContains(url.substr(path), "/api/")) {
    return absl::DataLossError(
        absl::StrCat("the next page of the listing is at '", url, "', which is not at ", endpoint));
  }
  return url.substr(url.find("/api/", path));
}

}  // namespace

bool IsSafeHubPath(absl::string_view path) {
  if (path.empty() || path.size() > 4096 || absl::StrContains(path, '\\')) return false;
  for (const char c : path) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return false;
  }
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
  }
  return true;
}

absl::StatusOr<std::string> AskForCommit(HubClient& hub, const HubRepository& repository, int attempts) {
  HubRequest request{.action = "look up", .repository = repository, .max_redirects = kMostListingRedirects};
  request.path = absl::StrCat("/api/", repository.Plural(), "/", repository.name, "/revision/",
                              PercentEncode(repository.revision, /*keep_slashes=*/false));
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, hub.Send(request, attempts));
  const absl::StatusOr<JsonValue> about = ParseJson(answer.body);
  std::string commit = about.ok() ? TextMember(*about, "sha") : "";
  if (IsCommit(commit)) return commit;
  return absl::DataLossError(absl::StrCat("cannot look up ", repository.name, ": the answer of ",
                                          hub.settings().endpoint,
                                          " names no commit: check that HF_ENDPOINT is a hub"));
}

absl::StatusOr<std::vector<HubFile>> ListHubFiles(HubClient& hub, const HubRepository& at_commit) {
  std::vector<HubFile> files;
  HubRequest request{.action = "list the files of", .repository = at_commit, .max_redirects = kMostListingRedirects};
  request.path = absl::StrCat("/api/", at_commit.Plural(), "/", at_commit.name, "/tree/", at_commit.revision,
                              "?recursive=true&expand=false");
  for (int page = 0; !request.path.empty(); ++page) {
    if (page == kMostPages) return absl::DataLossError(absl::StrCat(at_commit.name, ": its listing has no end"));
    DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, hub.Send(request));
    DISTILL_RETURN_IF_ERROR(Annotate(AddPage(answer.body, files), at_commit.name));
    DISTILL_ASSIGN_OR_RETURN(request.path, NextPage(answer.Header("link"), hub.settings().endpoint));
  }
  std::sort(files.begin(), files.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return files;
}

std::string HubListingToJson(const std::vector<HubFile>& files) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  for (const HubFile& file : files) {
    nlohmann::ordered_json entry = {{"size", file.size}, {"blob_id", file.git_oid}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
    entries[file.path] = std::move(entry);
  }
  const nlohmann::ordered_json listing = {{"format_version", kFormatVersion}, {"files", std::move(entries)}};
  return listing.dump(1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<std::vector<HubFile>> HubListingFromJson(absl::string_view json) {
  const absl::StatusOr<JsonValue> listing = ParseJson(json);
  if (!listing.ok()) return absl::DataLossError(listing.status().message());
  const JsonValue* const version = listing->Find("format_version");
  const JsonValue* const entries = listing->Find("files");
  if (version == nullptr || version->integer != kFormatVersion || entries == nullptr) {
    return absl::DataLossError("it is no listing, or of another version");
  }
  std::vector<HubFile> files;
  for (const auto& [path, entry] : entries->members) {
    HubFile file{.path = path,
                 .git_oid = TextMember(entry, "blob_id"),
                 .sha256 = TextMember(entry, "lfs_sha256"),
                 .xet_hash = TextMember(entry, "xet_hash")};
    DISTILL_ASSIGN_OR_RETURN(file, Checked(std::move(file), entry.Find("size")));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace distill
