// Shows what a model folder's tokenizer makes of texts, and how fast.
//
//   distill_tokenize FOLDER FILE...                  each token: bytes of the text, id, how the vocabulary spells it
//   distill_tokenize --count --lines --threads 2 FOLDER FILE...
//
// A FILE may be "-", standard input. At the end one line a file: bytes, tokens, and MB/s of encoding alone.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/text/tokenizer.h"

namespace distill {
namespace {

struct Options {
  bool count = false;
  bool lines = false;
  bool zeros = false;
  bool add_special_tokens = false;
  int threads = 1;
};

template <class V>
void Describe(V& v, Options& o) {
  v.Group("Options");
  v.Field("count", o.count, "print counts and speed alone");
  v.Field("lines", o.lines, "each line is a text of its own");
  v.Field("zeros", o.zeros, "each text ends with a zero byte, so that it may have several lines");
  v.Field("add_special_tokens", o.add_special_tokens, "show texts with the special tokens around them; not with count");
  v.Field("threads", o.threads, AtLeast(1), "that encode, with lines or zeros");
}

absl::StatusOr<std::string> ReadText(const std::string& file) {
  if (file != "-") return ReadFile(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

std::vector<absl::string_view> TextsOf(const std::string& text, const Options& options) {
  if (!options.lines && !options.zeros) return {text};
  std::vector<absl::string_view> texts = absl::StrSplit(text, options.lines ? '\n' : '\0');
  if (!texts.empty() && texts.back().empty()) texts.pop_back();  // behind the last one's end
  return texts;
}

absl::Status Show(const Tokenizer& tokenizer, absl::string_view text, const Options& options) {
  DISTILL_ASSIGN_OR_RETURN(const Encoding encoding,
                           tokenizer.EncodeInput(text, {.add_special_tokens = options.add_special_tokens}));
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto& [begin, end] = encoding.offsets[i];
    std::printf("%s\n", absl::StrCat(absl::Dec(begin, absl::kSpacePad6), "-", end, "\t", encoding.ids[i], "\t",
                                     absl::Utf8SafeCEscape(tokenizer.IdToToken(encoding.ids[i])))
                            .c_str());
  }
  return absl::OkStatus();
}

struct Counts {
  int64_t tokens = 0;
  uint64_t checksum = 0;  // of the ids: the sum of (id + 1) times the number of its token, from 1, in its text
  double seconds = 0;
};

absl::StatusOr<Counts> Count(const Tokenizer& tokenizer, const std::vector<absl::string_view>& texts, int threads) {
  constexpr size_t kTextsAtOnce = 64;
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> failures(threads);
  std::vector<Counts> of_threads(threads);
  const auto work = [&](int thread) -> absl::Status {
    Counts& counts = of_threads[thread];
    for (size_t begin; (begin = next.fetch_add(kTextsAtOnce)) < texts.size();) {
      for (size_t i = begin; i < std::min(begin + kTextsAtOnce, texts.size()); ++i) {
        DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(texts[i]));
        counts.tokens += static_cast<int64_t>(ids.size());
        for (size_t number = 0; number < ids.size();) {
          const uint64_t value = static_cast<uint64_t>(ids[number]) + 1;
          counts.checksum += value * ++number;
        }
      }
    }
    return absl::OkStatus();
  };
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] { failures[thread] = work(thread); });
  }
  for (std::thread& worker : workers) worker.join();
  Counts all;
  all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (int thread = 0; thread < threads; ++thread) {
    DISTILL_RETURN_IF_ERROR(failures[thread]);
    all.tokens += of_threads[thread].tokens;
    all.checksum += of_threads[thread].checksum;
  }
  return all;
}

absl::Status Run(int argc, char** argv) {
  Options options;
  const Description description = DescriptionOf(options);
  const ProgramText program = {"distill_tokenize",
                               "Shows what a model folder's tokenizer makes of texts, and how fast.", "FOLDER FILE...",
                               "  FOLDER    of a model, or a model of the hub (org/name)\n"
                               "  FILE...   of text; -: standard input\n"};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::OkStatus();
  }
  if (line.positional.size() < 2) {
    return absl::InvalidArgumentError("FOLDER and at least one FILE are required (distill_tokenize --help)");
  }
  if (options.lines && options.zeros) return absl::InvalidArgumentError("--lines and --zeros exclude each other");
  if (options.threads > 1 && !options.lines && !options.zeros) {
    return absl::InvalidArgumentError("--threads is for --lines and --zeros: one text is one thread's");
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string folder,
                           LocalPath(line.positional[0], {HubKind::kModel, {HubContents::kTokenizer}}));
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(folder));
  for (size_t i = 1; i < line.positional.size(); ++i) {
    const std::string& file = line.positional[i];
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
    const std::vector<absl::string_view> texts = TextsOf(text, options);
    for (const absl::string_view one : texts) {
      if (!options.count) DISTILL_RETURN_IF_ERROR(Annotate(Show(tokenizer, one, options), file));
    }
    const absl::StatusOr<Counts> counts = Count(tokenizer, texts, options.threads);
    if (!counts.ok()) return Annotate(counts.status(), file);
    std::printf("%s: %zu bytes, %zu %s, %lld tokens, %.1f MB/s, checksum %016llx\n", file.c_str(), text.size(),
                texts.size(), texts.size() == 1 ? "text" : "texts", static_cast<long long>(counts->tokens),
                static_cast<double>(text.size()) / counts->seconds / 1e6,
                static_cast<unsigned long long>(counts->checksum));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const absl::Status status = distill::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
