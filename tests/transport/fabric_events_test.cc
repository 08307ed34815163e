// Which version of libfabric's interface is asked for, and what becomes of what a provider reports as an event: efa
// ends the process where it cannot.
#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_endpoint.h"
#include "libdistill/transport/fabric_library.h"
#include "libdistill/transport/fabric_open.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;
using testing::WatchedFabric;

uint32_t loaded_version, asked_version;
fid_eq* last_events = nullptr;

uint32_t LoadedVersion() { return loaded_version; }

// Of this version libfabric itself has nothing to give, if it is older.
int NoteVersion(uint32_t version, const char*, const char*, uint64_t, const fi_info*, fi_info**) {
  asked_version = version;
  return -FI_ENOSYS;
}

absl::StatusOr<std::unique_ptr<FabricEndpoint>> OpenOnLoopback() {
  setenv("FI_TCP_IFACE", "lo", 1);
  return FabricEndpoint::Create({"tcp", "", 0, ""});
}

TEST_CASE("libfabric is asked for version 1.18 where it has that, and never for a newer one") {
  struct Row {
    uint32_t loaded, asked;
  };
  const std::vector<Row> rows = {{FI_VERSION(1, 17), FI_VERSION(1, 17)}, {FI_VERSION(1, 18), FI_VERSION(1, 18)},
                                 {FI_VERSION(1, 21), FI_VERSION(1, 18)}, {FI_VERSION(1, 22), FI_VERSION(1, 18)},
                                 {FI_VERSION(2, 0), FI_VERSION(1, 18)},  {FI_VERSION(2, 6), FI_VERSION(1, 18)}};
  const auto outcomes = RunRanks(1, absl::Seconds(60), [&](const World&) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchedFabric::Watch({}, &NoteVersion));
    DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabricLibrary());
    const_cast<FabricLibrary*>(library)->version = &LoadedVersion;
    for (const Row& row : rows) {
      loaded_version = row.loaded;
      asked_version = 0;
      if (FindFabrics({}).ok()) return absl::InternalError("something was found");
      DISTILL_RETURN_IF_ERROR(
          Expect(asked_version == row.asked && AskedFabricVersion(row.loaded) == row.asked,
                 absl::StrCat("of version ", FI_MAJOR(row.loaded), ".", FI_MINOR(row.loaded), ", ",
                              FI_MAJOR(asked_version), ".", FI_MINOR(asked_version), " was asked for")));
    }
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("the version of the libfabric that was loaded is its own") {
  REQUIRE(LoadFabricLibrary().ok());
  CHECK((*LoadFabricLibrary())->version() >= FI_VERSION(1, 17));
}

// As efa writes it (efa_base_ep_write_eq_error); the last flag is UTIL_FLAG_ERROR, which is libfabric's own.
int Report(fid_eq* events, int error, int of_provider) {
  fi_eq_err_entry entry = {};
  entry.err = error;
  entry.prov_errno = of_provider;
  return static_cast<int>(fi_eq_write(events, FI_NOTIFY, &entry, sizeof(entry), uint64_t{1} << 60));
}

TEST_CASE("an event that reports an error is the endpoint's error, with provider, interface and text") {
  const auto outcomes = RunRanks(1, absl::Seconds(60), [](const World&) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchedFabric::Watch({.on_events = [](fid_eq& events) { last_events = &events; }}));
    DISTILL_ASSIGN_OR_RETURN(const auto endpoint, OpenOnLoopback());
    DISTILL_RETURN_IF_ERROR(endpoint->Connect({endpoint->address()}, {"rank 0 on here"}));
    DISTILL_RETURN_IF_ERROR(Expect(last_events != nullptr, "no event queue was opened"));
    std::vector<char> in(8);
    FabricOperation receive;
    DISTILL_RETURN_IF_ERROR(endpoint->Receive(0, 1, in.data(), in.size(), {}, &receive).status());
    DISTILL_RETURN_IF_ERROR(endpoint->Poll().status());
    DISTILL_RETURN_IF_ERROR(Expect(Report(last_events, FI_EIO, FI_ENOMEM) == sizeof(fi_eq_err_entry), "not written"));
    DISTILL_RETURN_IF_ERROR(ExpectError(endpoint->Poll().status(), absl::StatusCode::kUnavailable,
                                        {"provider tcp;ofi_rxm failed on lo", "its error 12", "Input/output error"}));
    return Expect(!receive.done, "the receive is done");
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("an event that is no error changes nothing") {
  const auto outcomes = RunRanks(1, absl::Seconds(60), [](const World&) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(WatchedFabric::Watch({.on_events = [](fid_eq& events) { last_events = &events; }}));
    DISTILL_ASSIGN_OR_RETURN(const auto endpoint, OpenOnLoopback());
    DISTILL_RETURN_IF_ERROR(endpoint->Connect({endpoint->address()}, {"rank 0 on here"}));
    const fi_eq_entry entry = {};
    DISTILL_RETURN_IF_ERROR(
        Expect(fi_eq_write(last_events, FI_NOTIFY, &entry, sizeof(entry), 0) == sizeof(entry), "not written"));
    for (int i = 0; i < 3; ++i) DISTILL_RETURN_IF_ERROR(endpoint->Poll().status());
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
