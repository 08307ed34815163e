// What distill_llm can be told to do instead of training, and how it then answers prompts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "examples/recipe/command.h"
#include "libdistill/core/describe.h"

namespace distill {

// Beside what every recipe can do; on the command line alone.
struct LlmFlags : RecipeFlags {
  bool show_batch = false;
  int64_t spectrum = 0;       // above 0: write a file for layers_to_unfreeze, of so many per cent of the layers
  std::string spectrum_file;  // its path; empty: a name made of student_model's
  std::string publish;        // a model folder: publish it in options.publish.hub_location
  std::string generate;       // a model folder: answer `prompt` and `prompts` instead of training
  std::vector<std::string> prompt;
  std::string prompts;  // rows
  std::string answers;  // a file of rows
  Switch stream = Switch::kAuto;
  int64_t max_new_tokens = 256;
  std::vector<std::string> stop;
  // None: as generation_config.json says.
  std::optional<bool> do_sample;
  std::optional<double> sampling_temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p, min_p, repetition_penalty;
};

template <class V>
void DescribeGeneration(V& v, LlmFlags& o) {
  v.Field("generate", o.generate, "answer prompts with the model of this folder, may be s3://, or of the hub")
      .PathOfAnyStore();
  v.Field("prompt", o.prompt, "what the user says; given several times, all are answered, each in a row of JSON");
  v.Field("prompts", o.prompts,
          "what users say: a file of chat rows, or of rows with a 'prompt'; they are answered in batches")
      .PathOfAnyStore();
  v.Field("answers", o.answers, "file that gets the answers, a chat row of JSON each; empty: they are printed")
      .PathOfAnyStore();
  v.Field("stream", o.stream, "print one prompt's answer while it is made; auto: on a terminal");
  v.Field("max_new_tokens", o.max_new_tokens, Within(1, 1 << 20), "longest answer");
  v.Field("stop", o.stop, "an answer ends before this text, which is not printed; may be given several times")
      .Alias("stop_strings");
  v.Field("do_sample", o.do_sample,
          "draw tokens, or always take the most likely one; not given: as generation_config.json says, and so for the "
          "options below");
  v.Field("sampling_temperature", o.sampling_temperature, AtLeast(0), "0: always the most likely token");
  v.Field("top_k", o.top_k, AtLeast(0), "draw from the k most likely tokens; 0: from all");
  v.Field("top_p", o.top_p, Within(0, 1), "draw from the likeliest tokens that hold this share");
  v.Field("min_p", o.min_p, Within(0, 1),
          "draw from tokens with at least this share of the likeliest one's probability");
  v.Field("repetition_penalty", o.repetition_penalty, Above(0),
          "above 1: tokens that prompt or answer hold already become less likely; 1: none");
}

template <class V>
void Describe(V& v, LlmFlags& o) {
  Describe(v, static_cast<RecipeFlags&>(o));
  v.Field("show_batch", o.show_batch,
          "print one decoded batch with its loss mask, and what teacher and student find likely in it");
  v.Field(
      "spectrum", o.spectrum, Within(0, 100),
      "write a file for layers_to_unfreeze, with this percentage of student_model's layers of each kind: those with "
      "the highest signal-to-noise ratio (Spectrum); 0: do not");
  v.Field("spectrum_file", o.spectrum_file,
          "that file; empty: snr_results_MODEL_unfrozenparameters_Npercent.yaml, in the working folder")
      .PathOfAnyStore();
  v.Field("publish", o.publish, "publish the model of this folder in hub_location, also one that a run has left")
      .PathOfAnyStore();
  DescribeGeneration(v, o);
}

}  // namespace distill
