// What a program could be told, and how the tests tell it: each kind of value, in two structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libdistill/config/command_line.h"
#include "libdistill/config/config_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {

enum class Shape { kRound, kSquare };
constexpr EnumNames<Shape, 2> NamesOf(Shape) { return {{{"round", Shape::kRound}, {"square", Shape::kSquare}}}; }

struct SampleLoss {
  double temperature = 2;
  uint64_t seed = 42;
  std::optional<double> power = {};
};

template <class V>
void Describe(V& v, SampleLoss& o) {
  v.Group("Loss");
  v.Field("temperature", o.temperature, Above(0), "of the loss").Alias("tau").Similar("heat");
  v.Field("seed", o.seed, "of shuffles");
  v.Field("shape_kwargs.power", o.power, AtLeast(0), "of the shape");
}

struct SampleOptions {
  std::string name = "x";
  std::string folder = {};
  int64_t steps = -1;
  uint64_t seed = 42;
  bool packing = false;
  double rate = 1e-4;
  absl::Duration timeout = absl::Seconds(300);
  Shape shape = Shape::kRound;
  Switch narrow = Switch::kFalse;
  std::vector<Shape> shapes = {Shape::kRound};
  int64_t buckets = 3;
  SampleLoss loss = {};
};

template <class V>
void Describe(V& v, SampleOptions& o) {
  v.Group("General");
  v.Field("name", o.name, "of the run");
  v.Field("folder", o.folder, "of the run's files").Path();
  v.Field("steps", o.steps, AtLeast(-1), "to make").Alias("max_steps").AliasOf("once", {{"true", "1"}});
  v.Field("seed", o.seed, "of everything");
  v.Field("packing", o.packing, "several in a row");
  v.Field("rate", o.rate, FromUpTo(0, 1), "of learning");
  v.Field("timeout_seconds", o.timeout, Above(0), "to wait");
  v.Field("shape", o.shape, "of the thing").RefuseWord("oval", "an oval is a round thing: write round");
  v.Field("narrow", o.narrow, "half the bits");
  v.Field("shapes", o.shapes, "of all things").RefuseWord("oval", "an oval is a round thing: write round");
  v.Field("buckets", o.buckets, AtLeast(1), "of gradients").InCodeOnly();
  Describe(v, o.loss);
  v.Accept("optim", {"adamw_torch", "adamw"}, "AdamW is the only optimizer");
  v.Accept("pad_to_max_length", {"true"}, "rows are as long as the longest");
  v.Note("workers", "there is one thread, whatever it says");
  v.Refuse({"lora_r"}, "adapters are not supported");
  v.Section("dataset", {{"path", "folder"}, {"amount", "steps"}});
  v.Section("training");
  v.Together([&o]() -> absl::Status {
    if (!o.packing || o.steps != 7) return absl::OkStatus();
    return absl::InvalidArgumentError("packing and 7 steps exclude one another");
  });
}

struct SampleFlags {
  bool show_batch = false;
  std::optional<int64_t> ranks = {};
  std::vector<std::string> notes = {};
};

template <class V>
void Describe(V& v, SampleFlags& o) {
  v.Group("Instead");
  v.Field("show_batch", o.show_batch, "print one batch");
  v.Field("ranks", o.ranks, AtLeast(1), "to plan for");
  v.Field("note", o.notes, "to the reader; each time adds one");
}

struct Parsed {
  SampleOptions sample;
  SampleFlags flags;
  CommandLine line;
};

inline absl::StatusOr<Parsed> Parse(std::vector<std::string> arguments, const char* positional = nullptr,
                                    const char* positional_help = "") {
  std::vector<const char*> argv = {"sample"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  Parsed parsed;
  const Description settings = DescriptionOf(parsed.sample), flags = DescriptionOf(parsed.flags);
  auto line = ParseCommandLine(static_cast<int>(argv.size()), argv.data(),
                               {"sample", "Shows options.", positional, positional_help}, settings, flags);
  if (!line.ok()) return line.status();
  parsed.line = *std::move(line);
  return parsed;
}

inline std::string ErrorOf(std::vector<std::string> arguments) {
  const auto parsed = Parse(arguments);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

inline absl::Status ReadText(const std::string& text, SampleOptions& sample, std::vector<std::string>& notes) {
  const testing::TempFolder folder;
  return ReadConfigFile(folder.Write("some.yaml", text), DescriptionOf(sample), notes);
}

inline SampleOptions Read(const std::string& text) {
  SampleOptions sample;
  std::vector<std::string> notes;
  CHECK(ReadText(text, sample, notes) == absl::OkStatus());
  return sample;
}

// With the file's path left out.
inline std::string ErrorOfFile(const std::string& text) {
  SampleOptions sample;
  std::vector<std::string> notes;
  const absl::Status status = ReadText(text, sample, notes);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  const size_t name = status.message().find("some.yaml");
  REQUIRE(name != absl::string_view::npos);
  return std::string(status.message().substr(name + 9));
}

}  // namespace distill
