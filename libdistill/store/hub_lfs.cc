#include "libdistill/store/hub_lfs.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/hub_answer.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr char kLfsType[] = "application/vnd.git-lfs+json";
constexpr int kMostRounds = 2;
constexpr size_t kPartsAtOnce = 4;

// Where something is to be sent, and with which headers.
struct LfsAction {
  std::string href;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct LfsPlan {
  bool is_there = false;  // the store has the object
  LfsAction upload;
  int64_t part_bytes = 0;          // above 0: in parts of this size, and the `upload` is how their end is told
  std::vector<std::string> parts;  // where each of them goes
  LfsAction verify;                // without href: not asked for
};

absl::Status BadPlan(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the hub's answer about where to send it is not understood: ", what));
}

absl::StatusOr<LfsAction> ReadAction(const json& value) {
  LfsAction action{TextIn(value, "href"), {}};
  if (action.href.empty()) return BadPlan("no href");
  const auto headers = value.find("header");
  if (headers == value.end() || !headers->is_object()) return action;
  for (const auto& [name, text] : headers->items()) {
    if (text.is_string()) action.headers.emplace_back(name, text.get<std::string>());
  }
  return action;
}

// "chunk_size", and for the number of each part its address, stand among the headers.
absl::Status TakeParts(LfsPlan& plan, int64_t size) {
  std::map<int64_t, std::string> parts;
  for (const auto& [name, value] : plan.upload.headers) {
    int64_t number = 0;
    if (name == "chunk_size") {
      if (!absl::SimpleAtoi(value, &plan.part_bytes) || plan.part_bytes <= 0) return BadPlan("chunk_size");
    } else if (absl::SimpleAtoi(name, &number)) {
      parts[number] = value;
    }
  }
  if (plan.part_bytes == 0) return absl::OkStatus();
  plan.upload.headers.clear();
  for (auto& [number, href] : parts) plan.parts.push_back(std::move(href));
  if (static_cast<int64_t>(plan.parts.size()) != size / plan.part_bytes + (size % plan.part_bytes != 0 ? 1 : 0)) {
    return BadPlan(absl::StrCat(plan.parts.size(), " parts of ", plan.part_bytes, " bytes for ", size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status RefusalIn(const json& error) {
  std::string said = TextIn(error, "message");
  if (said.empty()) said = "it does not say why";
  const auto code = error.find("code");
  const bool has_code = code != error.end() && code->is_number_integer();
  return absl::PermissionDeniedError(
      absl::StrCat("the hub does not take it: ", said, has_code ? absl::StrCat(" (", code->get<int64_t>(), ")") : ""));
}

absl::StatusOr<LfsPlan> ReadPlan(const std::string& text, const LfsObject& object) {
  const json answer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto objects = answer.find("objects");
  // The answer itself is not shown: its addresses are signed, which is as good as a password.
  if (objects == answer.end() || !objects->is_array() || objects->size() != 1 || !objects->front().is_object()) {
    return BadPlan("it is no JSON with one object");
  }
  const json& about = objects->front();
  if (const auto error = about.find("error"); error != about.end() && !error->is_null()) return RefusalIn(*error);
  LfsPlan plan;
  const auto actions = about.find("actions");
  plan.is_there = actions == about.end() || !actions->is_object() || !actions->contains("upload");
  if (plan.is_there) return plan;
  DISTILL_ASSIGN_OR_RETURN(plan.upload, ReadAction((*actions)["upload"]));
  DISTILL_RETURN_IF_ERROR(TakeParts(plan, object.file->size()));
  if (actions->contains("verify")) {
    DISTILL_ASSIGN_OR_RETURN(plan.verify, ReadAction((*actions)["verify"]));
  }
  return plan;
}

class Upload {
 public:
  Upload(HubClient& hub, const HubRepository& repository, const LfsObject& object)
      : hub_(hub), repository_(repository), object_(object) {}

  // An address that is too old is refused, and so is the end of parts that the store has joined already although its
  // answer was lost: then it is asked again what there is to do.
  absl::StatusOr<int64_t> Run() {
    absl::Status refused;
    for (int round = 0; round < kMostRounds; ++round) {
      DISTILL_ASSIGN_OR_RETURN(const LfsPlan plan, Ask());
      if (plan.is_there) return refused.ok() ? 0 : object_.file->size();
      const absl::Status sent = plan.part_bytes > 0 ? SendParts(plan) : SendWhole(plan);
      if (sent.ok()) {
        DISTILL_RETURN_IF_ERROR(Verify(plan.verify));
        return object_.file->size();
      }
      refused = sent;
      if (!absl::IsPermissionDenied(sent) && !absl::IsInvalidArgument(sent) && !absl::IsNotFound(sent)) break;
    }
    return refused;
  }

 private:
  // What an action asks for. The token goes to the hub itself and to no other server: those get what the action says.
  HubRequest To(const char* what, const char* method, const LfsAction& action) const {
    HubRequest request{.action = what, .repository = repository_, .file = object_.name, .method = method};
    request.headers = action.headers;
    const std::string own = hub_.settings().endpoint + "/";
    if (absl::StartsWith(action.href, own)) {
      request.path = action.href.substr(own.size() - 1);
    } else {
      request.url = action.href;
    }
    return request;
  }

  json About() const {
    json about;
    about["oid"] = object_.sha256;
    about["size"] = object_.file->size();
    return about;
  }

  absl::StatusOr<LfsPlan> Ask() {
    json body;
    body["operation"] = "upload";
    body["transfers"] = json::array({"basic", "multipart"});
    body["objects"] = json::array();
    body["objects"].push_back(About());
    body["hash_algo"] = "sha256";
    body["ref"]["name"] = repository_.revision;
    const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
    HubRequest request{.action = "prepare to send", .repository = repository_, .file = object_.name, .method = "POST"};
    request.path = absl::StrCat(repository_.Page(), ".git/info/lfs/objects/batch");
    request.headers = {{"content-type", kLfsType}, {"accept", kLfsType}};
    request.body = text;
    DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, hub_.Send(request));
    return Annotated(ReadPlan(answer.body, object_));
  }

  absl::StatusOr<LfsPlan> Annotated(absl::StatusOr<LfsPlan> plan) const {
    if (plan.ok()) return plan;
    return Annotate(plan.status(), absl::StrCat("cannot send ", object_.name, " to ", repository_.name));
  }

  absl::Status Verify(const LfsAction& action) {
    if (action.href.empty()) return absl::OkStatus();
    HubRequest request = To("verify", "POST", action);
    const std::string body = About().dump();
    request.headers.emplace_back("content-type", "application/json");
    request.body = body;
    return hub_.Send(request).status();
  }

  absl::StatusOr<HttpResponse> SendRange(const LfsAction& to, int64_t begin, int64_t end) {
    HubRequest request = To("send", "PUT", to);
    request.open_body = [this, begin, end] { return StreamFile(object_.file, begin, end); };
    request.body_bytes = end - begin;
    DISTILL_ASSIGN_OR_RETURN(HttpResponse answer, hub_.Send(request));
    hub_.counters().bytes_written += request.body_bytes;
    return answer;
  }

  absl::Status SendWhole(const LfsPlan& plan) { return SendRange(plan.upload, 0, object_.file->size()).status(); }

  // Returns its ETag.
  absl::StatusOr<std::string> SendPart(const LfsPlan& plan, size_t part) {
    const int64_t begin = static_cast<int64_t>(part) * plan.part_bytes;
    const int64_t end = std::min(object_.file->size(), begin + plan.part_bytes);
    DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, SendRange({plan.parts[part], {}}, begin, end));
    const std::string& etag = answer.Header("etag");
    if (etag.empty()) return BadPlan(absl::StrCat("part ", part + 1, " of ", object_.name, " got no ETag"));
    return etag;
  }

  // Several at a time.
  absl::StatusOr<std::vector<std::string>> SendAllParts(const LfsPlan& plan) {
    std::vector<absl::StatusOr<std::string>> etags(plan.parts.size(), absl::UnknownError("not sent"));
    std::atomic<size_t> next{0};
    std::atomic<bool> has_failed{false};
    const auto work = [&] {
      for (size_t part = next++; part < etags.size() && !has_failed; part = next++) {
        etags[part] = SendPart(plan, part);
        if (!etags[part].ok()) has_failed = true;
      }
    };
    std::vector<std::thread> others;
    for (size_t i = 1; i < std::min(kPartsAtOnce, etags.size()); ++i) {
      absl::StatusOr<std::thread> thread = StartThread("sending to the hub", work);
      if (thread.ok()) others.push_back(*std::move(thread));
    }
    work();
    for (std::thread& thread : others) thread.join();
    std::vector<std::string> all;
    for (absl::StatusOr<std::string>& etag : etags) {
      if (!etag.ok() && absl::IsUnknown(etag.status())) continue;  // another one has failed
      if (!etag.ok()) return etag.status();
      all.push_back(*std::move(etag));
    }
    return all;
  }

  absl::Status SendParts(const LfsPlan& plan) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> etags, SendAllParts(plan));
    json end;
    end["oid"] = object_.sha256;
    end["parts"] = json::array();
    for (size_t i = 0; i < etags.size(); ++i) {
      json part;
      part["partNumber"] = i + 1;
      part["etag"] = etags[i];
      end["parts"].push_back(std::move(part));
    }
    const std::string body = end.dump(-1, ' ', false, json::error_handler_t::replace);
    HubRequest request = To("complete", "POST", plan.upload);
    request.headers = {{"content-type", kLfsType}, {"accept", kLfsType}};
    request.body = body;
    return hub_.Send(request).status();
  }

  HubClient& hub_;
  const HubRepository& repository_;
  const LfsObject& object_;
};

}  // namespace

absl::StatusOr<int64_t> UploadLfsObject(HubClient& hub, const HubRepository& repository, const LfsObject& object) {
  return Upload(hub, repository, object).Run();
}

}  // namespace distill
