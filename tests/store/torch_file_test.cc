#include "libdistill/store/torch_file.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/store/torch_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Global;
using testing::Number;
using testing::PickleOf;
using testing::TempFolder;
using testing::TensorOf;
using testing::Text;
using testing::TorchEntries;
using testing::TorchLegacy;
using testing::TorchTensor;
using testing::TorchZip;
using testing::ZipFile;
using testing::ZipOf;

absl::StatusOr<TorchFile> Open(std::string bytes) {
  return TorchFile::Open(MakeMemoryFile("pytorch_model.bin", std::move(bytes)));
}

// A zip file of torch with this pickle and no storage.
absl::Status OpenPickle(const std::string& pickle) {
  return Open(ZipOf({{"m/data.pkl", pickle}, {"m/version", "3"}})).status();
}

void CheckRefused(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& parts) {
  INFO(status);
  CHECK(status.code() == code);
  CHECK(absl::StrContains(status.message(), "pytorch_model.bin"));
  for (const std::string& part : parts) CHECK(absl::StrContains(status.message(), part));
}

void CheckDamaged(const absl::Status& status, const std::string& part) {
  CheckRefused(status, absl::StatusCode::kDataLoss, {part});
}

std::vector<float> ValuesOf(const TorchFile& file, const std::string& name) {
  const auto view = file.Load(name);
  INFO(view.status());
  REQUIRE(view.ok());
  REQUIRE(view->dtype == DType::kFloat32);
  const auto count = static_cast<size_t>(view->size_bytes) / sizeof(float);
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), view->data, count * sizeof(float));
  return values;
}

std::vector<TorchTensor> Several() {
  const std::vector<float> six = {0, 1, 2, 3, 4, 5};
  return {{.name = "rows", .values = six, .shape = {2, 3}, .strides = {3, 1}},
          {.name = "turned", .values = six, .shape = {3, 2}, .strides = {1, 3}, .key = "rows"},
          {.name = "part", .values = six, .shape = {2}, .strides = {2}, .offset = 1, .key = "rows"},
          {.name = "repeated", .values = {7}, .shape = {2, 2}, .strides = {0, 0}},
          {.name = "number", .values = {8}, .shape = {}, .strides = {}},
          {.name = "one", .values = {9}, .shape = {1, 1}, .strides = {5, 77}},
          {.name = "empty", .values = {}, .shape = {0, 4}, .strides = {4, 1}}};
}

void CheckSeveral(const absl::StatusOr<TorchFile>& file) {
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(file->tensors().size() == 7);
  CHECK(file->Find("turned")->shape == std::vector<int64_t>{3, 2});
  CHECK(ValuesOf(*file, "rows") == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(ValuesOf(*file, "turned") == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(ValuesOf(*file, "part") == std::vector<float>{1, 3});
  CHECK(ValuesOf(*file, "repeated") == std::vector<float>{7, 7, 7, 7});
  CHECK(ValuesOf(*file, "number") == std::vector<float>{8});
  CHECK(ValuesOf(*file, "one") == std::vector<float>{9});
  CHECK(ValuesOf(*file, "empty").empty());
}

TEST_CASE("tensors are read as parts of their storages, whatever their strides") {
  CheckSeveral(Open(TorchZip(Several())));
  CheckSeveral(Open(ZipOf(TorchEntries(Several()), /*is_zip64=*/true)));
  CheckSeveral(Open(TorchLegacy(Several())));
  const TempFolder folder;
  CheckSeveral(TorchFile::Open(folder.Write("a.bin", TorchZip(Several()))));
  CheckSeveral(TorchFile::Open(folder.Write("b.bin", TorchLegacy(Several()))));
  CHECK(TorchFile::Open(folder / "c.bin").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("out of a local file, tensors in row-major order are views of it, and outlive it") {
  const TempFolder folder;
  auto file = TorchFile::Open(folder.Write("a.bin", TorchZip(Several())));
  REQUIRE(file.ok());
  CHECK(file->Load("rows")->data == file->Load("rows")->data);
  CHECK(file->Load("turned")->data != file->Load("turned")->data);
  const auto rows = file->Load("rows"), turned = file->Load("turned");
  file->Forget("rows");
  file->Forget("turned");
  file = absl::NotFoundError("gone");
  CHECK(static_cast<const float*>(rows->data)[5] == 5);
  CHECK(static_cast<const float*>(turned->data)[1] == 3);
}

TEST_CASE("every truncation of a file of torch is an error that names it") {
  for (const std::string& bytes : {TorchZip(Several()), TorchLegacy(Several())}) {
    for (size_t left = bytes.size(); left-- > 0;) {
      const absl::Status status = Open(bytes.substr(0, left)).status();
      INFO(left << " bytes: " << status);
      CHECK((status.code() == absl::StatusCode::kDataLoss || status.code() == absl::StatusCode::kInvalidArgument));
      CHECK(absl::StrContains(status.message(), "pytorch_model.bin"));
    }
  }
}

TEST_CASE("no flipped byte of a file of torch does harm") {
  for (const std::string& bytes : {TorchZip(Several()), TorchLegacy(Several())}) {
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (const int bit : {0, 7}) {
        std::string flipped = bytes;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
        const auto file = Open(flipped);
        if (!file.ok()) continue;
        for (const auto& [name, view] : file->tensors()) CHECK(file->Load(name).ok());
      }
    }
  }
}

TEST_CASE("a pickle that names anything but weights is refused by that name, and nothing runs") {
  const TempFolder folder;
  const std::string flag = folder / "ran";
  const std::string call = Global("posix", "system") + "(" + Text("touch " + flag) + "tR";
  const auto refused = [&](const std::string& bytes, const std::string& name) {
    CheckRefused(Open(bytes).status(), absl::StatusCode::kInvalidArgument,
                 {name, "nothing of it was run", "safetensors"});
    CHECK(folder.Read("ran").empty());
  };
  refused(ZipOf({{"m/data.pkl", "\x80\x02" + call + "."}}), "posix.system");
  refused("\x80\x02" + call + ".", "posix.system");  // in place of the older format's first pickle
  refused(absl::StrReplaceAll(TorchLegacy(Several()), {{"OrderedDict", "Counter"}}), "collections.Counter");
  refused(ZipOf({{"m/data.pkl",
                  "\x80\x04\x8c\x08"
                  "builtins\x8c\x04"
                  "eval\x93."}}),
          "builtins.eval");
  refused(absl::StrReplaceAll(TorchZip(Several()), {{"FloatStorage", "FancyStorage"}}), "torch.FancyStorage");
}

TEST_CASE("a pickle that is no program of torch.save is refused") {
  const std::string start = "\x80\x02";
  CheckDamaged(OpenPickle(""), "in the middle");
  CheckDamaged(OpenPickle(start), "in the middle");
  CheckDamaged(OpenPickle("\x80\x01}."), "protocol 1");
  CheckDamaged(OpenPickle(start + "i"), "instruction 0x69");
  CheckDamaged(OpenPickle(start + "t."), "mark");
  CheckDamaged(OpenPickle(start + "(R."), "lacks its values");
  CheckDamaged(OpenPickle(start + "N(\x85."), "lacks its values");
  CheckDamaged(OpenPickle(start + "NN."), "left over");
  CheckDamaged(OpenPickle(start + "h\x07."), "repeat");
  CheckDamaged(OpenPickle(start + "Na."), "no list or dictionary");
  CheckDamaged(OpenPickle(start + "NNa."), "no list or dictionary");
  CheckDamaged(OpenPickle(start + "}(Nu."), "no list or dictionary");
  CheckDamaged(OpenPickle(start + "NNb."), "attributes");
  CheckDamaged(OpenPickle(start + "N)R."), "no function");
  CheckDamaged(OpenPickle(start + Global("torch", "float32") + ")R."), "torch.float32 with 0 arguments");
  CheckDamaged(OpenPickle(start + "X\xff\xff\xff\xff."), "in the middle");
  CheckDamaged(OpenPickle(start + "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "in the middle");
  CheckRefused(OpenPickle(start + "N."), absl::StatusCode::kInvalidArgument, {"no dictionary"});
  CheckRefused(OpenPickle(start + "}K\x01Ns."), absl::StatusCode::kInvalidArgument, {"no text"});
  CheckRefused(OpenPickle(start + "}" + Text("epoch") + "K\x01s."), absl::StatusCode::kInvalidArgument,
               {"tensor \"epoch\"", "no tensor"});
  CHECK(OpenPickle(start + "}.").ok());
}

TEST_CASE("a pickle that nests a million deep, or within itself, takes no stack") {
  const std::string start = "\x80\x02}" + Text("a");
  for (const std::string deep : {"]a", "\x85", "}"}) {
    std::string pickle = start + "]";
    for (int i = 0; i < 1'000'000; ++i) pickle += deep;
    CHECK_FALSE(OpenPickle(pickle + "s.").ok());
  }
  CHECK_FALSE(OpenPickle("\x80\x02" + std::string(1'000'000, '(') + ".").ok());
  CheckRefused(OpenPickle("\x80\x02}q\x01" + Text("a") + "h\x01s."), absl::StatusCode::kInvalidArgument, {"no tensor"});
}

TEST_CASE("a text that a pickle repeats is not copied each time") {
  std::string pickle = "\x80\x02}(" + Text(std::string(1 << 20, 'n')) + "q\x01N";
  for (int i = 0; i < 200'000; ++i) pickle += "h\x01N";
  CheckDamaged(OpenPickle(pickle + "u."), "a name of 1048576 bytes");
}

absl::Status OpenTensor(TorchTensor tensor) {
  const absl::Status status = Open(TorchZip({tensor})).status();
  INFO(status);
  CHECK(Open(TorchLegacy({tensor})).status().code() == status.code());
  return status;
}

TEST_CASE("a tensor that does not fit its storage is an error that names it") {
  const TorchTensor good = {.name = "a", .values = {1, 2, 3, 4}, .shape = {2, 2}, .strides = {2, 1}};
  const auto with = [&](auto change) {
    TorchTensor tensor = good;
    change(tensor);
    return OpenTensor(tensor);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  REQUIRE(OpenTensor(good).ok());
  CheckDamaged(with([](auto& t) { t.shape = {2, 3}; }), "tensor \"a\": shape [2, 3]");
  CheckDamaged(with([](auto& t) { t.offset = 1; }), "beyond its storage");
  CheckDamaged(with([](auto& t) { t.offset = INT64_MAX; }), "beyond its storage");
  CheckDamaged(with([](auto& t) { t.strides = {kHuge, kHuge}; }), "beyond its storage");
  CheckDamaged(with([](auto& t) { t.strides = {INT64_MAX, INT64_MAX}; }), "beyond its storage");
  CheckDamaged(with([](auto& t) { t.shape = {kHuge, 4}; }), "overflows");
  CheckDamaged(with([](auto& t) { t.shape = {kHuge, 4, 0}, t.strides = {1, 1, 1}; }), "overflows");
  CheckDamaged(with([](auto& t) { t.shape = {-1, 2}; }), "no size");
  CheckDamaged(with([](auto& t) { t.strides = {-2, 1}; }), "no size");
  CheckDamaged(with([](auto& t) { t.offset = -1; }), "no size");
  CheckDamaged(with([](auto& t) { t.strides = {1}; }), "strides");
  CheckDamaged(with([](auto& t) { t.shape = t.strides = std::vector<int64_t>(65, 1); }), "64");
  CheckDamaged(with([](auto& t) { t.elements = 5; }), "tensor \"a\"");
  CheckDamaged(with([](auto& t) { t.elements = kHuge; }), "overflows");
  CheckDamaged(with([](auto& t) { t.key = "gone"; }), "storage \"gone\" is missing");
  CheckRefused(with([](auto& t) {
                 t.shape = {1 << 20, 1 << 20}, t.strides = {0, 0};
               }),
               absl::StatusCode::kInvalidArgument, {"tensor \"a\"", "repeats", "contiguous"});
  CheckDamaged(Open(TorchZip({good, good})).status(), "twice");
  CheckDamaged(Open(TorchLegacy({good, good})).status(), "twice");
  // The older format lists the storages by themselves.
  const std::string two = TorchLegacy({good, TensorOf("b", {1, 2, 3, 4})});
  const size_t listed = two.rfind(Text("b"));
  CheckDamaged(Open(std::string(two).replace(listed, 6, Text("a"))).status(), "twice");
  CheckDamaged(Open(std::string(two).replace(listed, 6, Text("c"))).status(), "no tensor has the storage");
}

TEST_CASE("a zip file that lies about itself is refused") {
  const std::vector<ZipFile> good = TorchEntries(Several());
  const auto with = [&](size_t entry, auto change) {
    std::vector<ZipFile> files = good;
    change(files[entry]);
    return Open(ZipOf(files)).status();
  };
  CheckRefused(with(0, [](auto& f) { f.method = 8; }), absl::StatusCode::kInvalidArgument,
               {"m/data.pkl", "compressed", "zip -0"});
  CheckRefused(with(0, [](auto& f) { f.flags = 1; }), absl::StatusCode::kInvalidArgument, {"m/data.pkl", "encrypted"});
  CheckRefused(with(1, [](auto& f) { f.bytes = "big"; }), absl::StatusCode::kInvalidArgument, {"big-endian"});
  CheckRefused(with(0, [](auto& f) { f.name = "m/other"; }), absl::StatusCode::kInvalidArgument, {"data.pkl"});
  CheckRefused(with(1, [](auto& f) { f.name = "m/constants.pkl"; }), absl::StatusCode::kInvalidArgument,
               {"TorchScript"});
  CheckRefused(with(good.size() - 1, [](auto& f) { f.bytes = "11"; }), absl::StatusCode::kInvalidArgument, {"version"});
  CheckDamaged(with(1, [](auto& f) { f.name = "m/version"; }), "twice");
  CheckDamaged(with(2, [](auto& f) { f.bytes.pop_back(); }), "tensor \"rows\"");
  CheckRefused(Open(TorchLegacy(Several(), /*is_little_endian=*/false)).status(), absl::StatusCode::kInvalidArgument,
               {"big-endian"});
  CHECK(with(1, [](auto& f) { f.bytes = "little\n"; }).ok());
  const std::string bytes = TorchZip(Several());
  // The second entry of the directory says the place of the first.
  std::string overlap = bytes;
  const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 1);
  overlap.replace(second + 42, 4, overlap.substr(first + 42, 4));
  CheckDamaged(Open(overlap).status(), "m/byteorder");
  std::string long_entry = bytes;
  long_entry.replace(first + 24, 4, "\xff\xff\xff\x7f");
  CheckDamaged(Open(long_entry).status(), "m/data.pkl");
  CheckDamaged(Open(bytes + "x").status(), "directory");
  CheckDamaged(Open("PK\x03\x04" + std::string(100'000, 'x')).status(), "directory");
  CheckRefused(Open("").status(), absl::StatusCode::kInvalidArgument, {"torch.save"});
  CheckRefused(Open("version https://git-lfs.github.com/spec/v1").status(), absl::StatusCode::kInvalidArgument,
               {"LFS"});
  CheckRefused(Open("\x80\x02N.").status(), absl::StatusCode::kDataLoss, {"in the middle"});
  CheckRefused(Open("\x80\x02N.\x80\x02N.\x80\x02N.").status(), absl::StatusCode::kInvalidArgument, {"torch.save"});
}

}  // namespace
}  // namespace distill
