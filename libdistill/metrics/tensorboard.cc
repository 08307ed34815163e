#include "libdistill/metrics/tensorboard.h"

#include <unistd.h>

#include <array>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/proto/tensorboard_events.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

constexpr char kEventFilePrefix[] = "events.out.tfevents.";

absl::Status RemoveEventFiles(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ListFiles(folder, kEventFilePrefix, "");
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(names.status());
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  for (const std::string& name : *names) DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
  return absl::OkStatus();
}

std::string Frame(const std::string& event) {
  const std::string length = LittleEndian<uint64_t>(event.size());
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length)), event, LittleEndian(MaskedCrc32c(event)));
}

NamedValues InGroup(absl::string_view group, const auto& values) {
  NamedValues scalars;
  for (const auto& [name, value] : values) scalars.emplace_back(absl::StrCat(group, name), value);
  return scalars;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

absl::StatusOr<std::unique_ptr<TensorBoardWriter>> TensorBoardWriter::Open(const std::string& folder,
                                                                           int64_t done_steps) {
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  if (done_steps == 0) DISTILL_RETURN_IF_ERROR(RemoveEventFiles(folder));
  char host[256] = "localhost";
  (void)gethostname(host, sizeof(host) - 1);
  const double now = Now();
  // TensorBoard reads files in the order of their names: the time comes first, to the microsecond.
  const std::string path = JoinPath(folder, absl::StrFormat("%s%.6f.%s.%d.v2", kEventFilePrefix, now, host, getpid()));
  std::string head = Frame(FileVersionEvent(now));
  if (done_steps > 0) absl::StrAppend(&head, Frame(SessionStartEvent(now, done_steps + 1)));
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file, RecordFile::Create(path, head));
  return std::unique_ptr<TensorBoardWriter>(new TensorBoardWriter(std::move(file)));
}

absl::Status TensorBoardWriter::Write(int64_t step, const NamedValues& scalars) {
  file_->Append(Frame(ScalarsEvent(Now(), step, scalars)));
  return absl::OkStatus();
}

absl::Status TensorBoardWriter::OnLog(const StepRecord& record, TrainingControl&) {
  return Write(record.step, InGroup("train/", record.values));
}

absl::Status TensorBoardWriter::OnEvaluate(const EvaluationRecord& record, TrainingControl&) {
  NamedValues scalars = InGroup("eval/", record.metrics);
  scalars.emplace_back("eval/epoch", record.epoch);
  return Write(record.step, scalars);
}

}  // namespace distill
