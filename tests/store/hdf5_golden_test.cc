// Files that tests/golden/hdf5_golden.py wrote by h5py, against what h5py reads of them.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hdf5_file.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill::testing {
namespace {

using Json = nlohmann::json;
using Indices = std::vector<int64_t>;

const std::string kGolden = GoldenFolder() + "/hdf5/";

// A block of `dataset`, as doubles, out of all its values.
std::vector<double> Expected(const Json& dataset, const Indices& offset, const Indices& count) {
  const Indices shape = dataset["shape"].get<Indices>();
  std::vector<double> values;
  Indices at(shape.size(), 0);
  for (const Json& value : dataset["values"]) {
    bool is_in = true;
    for (size_t i = 0; i < shape.size(); ++i) is_in = is_in && at[i] >= offset[i] && at[i] < offset[i] + count[i];
    if (is_in) values.push_back(value.get<double>());
    for (size_t i = shape.size(); i > 0 && ++at[i - 1] == shape[i - 1]; --i) at[i - 1] = 0;
  }
  return values;
}

void CheckNumbers(const Hdf5File& file, const Hdf5Dataset& dataset, const Json& wanted) {
  const absl::StatusOr<std::vector<double>> values = file.ReadAll<double>(dataset);
  INFO(values.status());
  REQUIRE(values.ok());
  REQUIRE(*values == wanted["values"].get<std::vector<double>>());
  Random random(values->size(), dataset.shape.size());
  for (int i = 0; i < 10; ++i) {
    Indices offset, count;
    size_t size = 1;
    for (const int64_t length : dataset.shape) {
      offset.push_back(static_cast<int64_t>(random.Below(static_cast<uint64_t>(length) + 1)));
      count.push_back(static_cast<int64_t>(random.Below(static_cast<uint64_t>(length - offset.back()) + 1)));
      size *= static_cast<size_t>(count.back());
    }
    std::vector<double> block(size);
    REQUIRE(file.Read(dataset, offset, count, absl::MakeSpan(block)) == absl::OkStatus());
    REQUIRE(block == Expected(wanted, offset, count));
  }
}

Json AsJson(const Hdf5Attribute& attribute) {
  Json flat = std::visit([](const auto& values) { return Json(values); }, attribute.values);
  if (attribute.shape.empty()) return flat[0];
  if (attribute.shape.size() == 1) return flat;
  Json rows = Json::array();  // of two dimensions
  for (int64_t i = 0; i < attribute.shape[0]; ++i) {
    rows.push_back(Json::array());
    for (int64_t k = 0; k < attribute.shape[1]; ++k) rows.back().push_back(flat[i * attribute.shape[1] + k]);
  }
  return rows;
}

TEST_CASE("HDF5 files hold what h5py reads of them") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const Json wanted = Json::parse(*ReadFile(entry.path().string()));
    const std::string path = std::filesystem::path(entry.path()).replace_extension(".hdf5").string();
    const auto file = Hdf5File::Open(path);
    INFO(path << ": " << file.status());
    REQUIRE(file.ok());
    for (const Json& dataset : wanted["datasets"]) {
      const auto found = (*file)->Find(dataset["name"]);
      INFO(dataset["name"] << ": " << found.status());
      REQUIRE(found.ok());
      CHECK(found->shape == dataset["shape"].get<Indices>());
      CHECK(found->chunk == dataset["chunk"].get<Indices>());
      CHECK(found->filters == dataset["filters"].get<std::vector<std::string>>());
      REQUIRE((found->type.kind == Hdf5Kind::kString) == dataset["string"].get<bool>());
      if (found->type.kind == Hdf5Kind::kString) {
        const auto texts = (*file)->ReadStrings(*found, Indices(found->shape.size(), 0), found->shape);
        INFO(texts.status());
        REQUIRE(texts.ok());
        CHECK(*texts == dataset["values"].get<std::vector<std::string>>());
      } else {
        CheckNumbers(**file, *found, dataset);
      }
    }
    for (const auto& [object, attributes] : wanted["attributes"].items()) {
      const auto found = (*file)->Attributes(object);
      INFO(object << ": " << found.status());
      REQUIRE(found.ok());
      Json all = Json::object();
      for (const Hdf5Attribute& attribute : *found) all[attribute.name] = AsJson(attribute);
      CHECK(all == attributes);
    }
  }
  CHECK(files == 28);
}

TEST_CASE("what lies in an HDF5 file is listed, links to it once more") {
  const auto file = Hdf5File::Open(kGolden + "many_earliest.hdf5");
  REQUIRE(file.ok());
  CHECK((*file)->ListDatasets()->size() == 300);
  CHECK(*(*file)->ListDatasets("/group_017") == std::vector<std::string>{"/group_017/x"});
  const auto links = (*file)->List("/");
  REQUIRE(links.ok());
  REQUIRE(links->size() == 300);
  CHECK((*links)[17].name == "group_017");
  CHECK((*links)[17].address > 0);
}

// The error of reading a data set of refused.hdf5 as float64, or "" where there is none.
template <typename T = double>
std::string Refused(const std::string& dataset, const std::string& name = "refused.hdf5") {
  const auto file = Hdf5File::Open(kGolden + name);
  if (!file.ok()) return file.status().ToString();
  const auto found = (*file)->Find(dataset);
  if (!found.ok()) return found.status().ToString();
  return (*file)->ReadAll<T>(*found).status().ToString();
}

TEST_CASE("what is not read of HDF5 is refused by its name") {
  const std::map<std::string, std::string> cases = {
      {"/compound", "its elements are of type compound"},
      {"/complex", "its elements are of type compound"},
      {"/reference", "its elements are of type reference"},
      {"/ragged", "its elements are of type list of any length"},
      {"/opaque", "its elements are of type opaque"},
      {"/lzf", "is compressed by lzf (filter 32000), which is not read"},
      {"/scaleoffset", "is compressed by scaleoffset, which is not read"},
      {"/empty", "it holds nothing (h5py.Empty)"},
      {"/external", "is an external link"},
      {"/external/contiguous/f4", "is an external link"},
      {"/elsewhere", "keeps its values in other files"},
      {"/huge_chunks", "its chunks of [131072, 1024] elements have more than 268435456 bytes"},
      {"/nothing", "NOT_FOUND"},
      {"/nothing/inside", "there is no /nothing"},
      {"/compound/inside", "/compound is itself a data set, where a group that holds inside was expected"},
      {"/", "is a group"}};
  for (const auto& [dataset, text] : cases) {
    const std::string error = Refused(dataset);
    INFO(error);
    CHECK(absl::StrContains(error, text));
    CHECK(absl::StrContains(error, absl::StrCat("refused.hdf5: ", dataset, ": ")));
  }
  CHECK(absl::StrContains(Refused("/virtual", "virtual.hdf5"), "is a virtual data set"));
  INFO(Refused("/dangling"));
  CHECK(absl::StrContains(Refused("/dangling"), "refused.hdf5: /dangling: "));
}

TEST_CASE("numbers that the wanted type cannot hold are refused, and never changed") {
  CHECK(Refused<int32_t>("/whole_floats") == "OK");
  CHECK(absl::StrContains(Refused<int32_t>("/floats"), "value 2.5 of element 1 of those read is not held"));
  CHECK(absl::StrContains(Refused<double>("/large"), "value 9007199254740993 of element 0"));
  CHECK(Refused<int64_t>("/large") == "OK");
  CHECK(absl::StrContains(Refused<int32_t>("/large"), "refused.hdf5: /large: value 9007199254740993 of element 0"));
  CHECK(absl::StrContains(Refused<int64_t>("/larger"), "value 18446744073709551615"));
  CHECK(absl::StrContains(Refused<float>("/wide"), "value 1e+300 of element 0"));
  CHECK(Refused<double>("/wide") == "OK");
  CHECK(absl::StrContains(Refused<uint8_t>("/whole_floats"), "integer of 8 bits"));
}

TEST_CASE("a block outside of a data set, or room of another size, is an error") {
  const auto file = Hdf5File::Open(kGolden + "layouts_earliest.hdf5");
  REQUIRE(file.ok());
  const auto dataset = (*file)->Find("/plain/9x11");
  REQUIRE(dataset.ok());
  std::vector<int32_t> out(4);
  const auto read = [&](const Indices& offset, const Indices& count) {
    return (*file)->Read(*dataset, offset, count, absl::MakeSpan(out)).ToString();
  };
  CHECK(read({7, 9}, {2, 2}) == "OK");
  for (const auto& [offset, count] : std::vector<std::pair<Indices, Indices>>{
           {{8, 9}, {2, 2}}, {{-1, 0}, {2, 2}}, {{0, 0}, {-2, -2}}, {{0}, {4}}, {{0, INT64_MAX}, {2, 2}}}) {
    CHECK(absl::StrContains(read(offset, count), "OUT_OF_RANGE"));
  }
  CHECK(absl::StrContains(read({0, 0}, {3, 3}), "room for 4 elements was given, but the block has 9"));
}

// Whether all that `names` are is still read.
bool ReadsAll(std::string bytes, const std::vector<std::string>& names) {
  const auto file = Hdf5File::Open(MakeMemoryFile("damaged.hdf5", std::move(bytes)),
                                   {.most_chunk_bytes = 1 << 20, .most_read_bytes = 16 << 20});
  if (!file.ok()) {
    REQUIRE(absl::StrContains(file.status().message(), "damaged.hdf5"));
    return false;
  }
  bool is_whole = true;
  for (const std::string& name : names) {
    is_whole = (*file)->Attributes(name.substr(0, name.find('/', 1))).ok() && is_whole;
    const auto dataset = (*file)->Find(name);
    const auto values = dataset.ok() ? (*file)->ReadAll<float>(*dataset) : dataset.status();
    if (!values.ok()) REQUIRE(absl::StrContains(values.status().message(), "damaged.hdf5"));
    is_whole = is_whole && values.ok();
  }
  (void)(*file)->ListDatasets();
  return is_whole;
}

TEST_CASE("an attribute whose name does not end within its message is damaged, and HDF5 never reads on") {
  const std::string good = *ReadFile(kGolden + "trials_earliest_plain.hdf5");
  const absl::string_view name("session\0", 8);
  int changed = 0;
  std::string bad = good;
  for (size_t at = 0; (at = good.find(name.data(), at, name.size())) != std::string::npos; ++at, ++changed) {
    bad[at + 7] = 'x';
  }
  REQUIRE(changed == 12);
  const auto file = Hdf5File::Open(MakeMemoryFile("damaged.hdf5", std::move(bad)));
  REQUIRE(file.ok());
  const absl::Status status = (*file)->Attributes("/trial_0000").status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message() == "damaged.hdf5: /trial_0000: its description is damaged; fetch or write the file again");
}

TEST_CASE("values that lie outside of the file are lost data, and no mistake of who reads them") {
  std::string bad = *ReadFile(kGolden + "trials_earliest_plain.hdf5");
  int changed = 0;
  for (size_t at = 0; at + 18 < bad.size(); ++at) {
    // The layout of a contiguous data set of 200 bytes: version, class, address, size.
    if (bad.compare(at, 2, "\x03\x01") != 0 || bad.compare(at + 10, 8, "\xc8\0\0\0\0\0\0\0", 8) != 0) continue;
    bad[at + 5] = 1;
    ++changed;
  }
  REQUIRE(changed >= 12);
  const auto file = Hdf5File::Open(MakeMemoryFile("damaged.hdf5", std::move(bad)));
  REQUIRE(file.ok());
  const auto dataset = (*file)->Find("/trial_0000/seq_class_ids");
  REQUIRE(dataset.ok());
  const absl::Status status = (*file)->ReadAll<int32_t>(*dataset).status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(status.message(), "/trial_0000/seq_class_ids: it lies outside of the file"));
}

TEST_CASE("a compact data set with fewer values than its shape says is damaged") {
  std::string bad = *ReadFile(kGolden + "layouts_earliest.hdf5");
  const size_t layout = bad.find("\x03\x00\x30\x00", 0, 4);  // version, class, 48 bytes
  REQUIRE(layout != std::string::npos);
  bad[layout + 2] = 0;
  const auto file = Hdf5File::Open(MakeMemoryFile("damaged.hdf5", std::move(bad)));
  REQUIRE(file.ok());
  const auto dataset = (*file)->Find("/compact");
  REQUIRE(dataset.ok());
  const absl::Status status = (*file)->ReadAll<int32_t>(*dataset).status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(status.message(), "damaged.hdf5: /compact: it has fewer values than its shape says"));
}

TEST_CASE("a file of other bytes is told from a damaged one, also behind a user block") {
  const auto error_of = [](const std::string& bytes) {
    return Hdf5File::Open(MakeMemoryFile("x.hdf5", bytes)).status().ToString();
  };
  for (const std::string& bytes : {std::string(), std::string("no"), std::string(5000, 'x')}) {
    INFO(error_of(bytes));
    CHECK(absl::StrContains(error_of(bytes), "INVALID_ARGUMENT: x.hdf5: the file: its bytes are not HDF5"));
  }
  const std::string cut = ReadFile(kGolden + "many_v110.hdf5")->substr(0, 1000);
  for (const size_t block : {0, 512, 1024}) {
    INFO(error_of(std::string(block, 'x') + cut));
    CHECK(absl::StrContains(error_of(std::string(block, 'x') + cut), "DATA_LOSS: x.hdf5: the file: damaged HDF5"));
  }
}

TEST_CASE("damaged HDF5 is refused or read, and never crashes") {
  for (const char* name : {"trials_earliest_all", "trials_v110_all", "many_v110"}) {
    const std::string good = *ReadFile(kGolden + name + ".hdf5");
    const auto file = Hdf5File::Open(kGolden + name + ".hdf5");
    REQUIRE(file.ok());
    const auto names = (*file)->ListDatasets();
    REQUIRE(names.ok());
    REQUIRE(ReadsAll(good, *names));
    Random random(3);
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      std::string bad = good;
      if (i % 4 == 0) {  // all that were cut are refused
        bad.resize(good.size() * static_cast<size_t>(i) / 200);
        CHECK(!ReadsAll(bad, *names));
        continue;
      }
      for (uint64_t flips = 1 + random.Below(20); flips > 0; --flips) {
        char& byte = bad[random.Below(bad.size())];
        byte = static_cast<char>(byte ^ (1 << random.Below(8)));
      }
      refused += !ReadsAll(bad, *names);
    }
    CHECK(refused > 50);
  }
}

}  // namespace
}  // namespace distill::testing
