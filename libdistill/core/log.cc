#include "libdistill/core/log.h"

#include <cstdlib>
#include <string>

#include "libdistill/core/identity.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace distill {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("distill", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %L %v");
    const char* level = std::getenv("DISTILL_LOG_LEVEL");
    made->set_level(level == nullptr ? spdlog::level::info : spdlog::level::from_str(level));
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

void Write(spdlog::level::level_enum level, absl::string_view message) {
  const std::string text(message);
  if (GetIdentity().world_size == 1) {
    Logger().log(level, "{}", text);
  } else {
    Logger().log(level, "[{}] {}", DescribeIdentity(), text);
  }
}

}  // namespace

void LogDebug(absl::string_view message) { Write(spdlog::level::debug, message); }
void LogInfo(absl::string_view message) {
  if (GetIdentity().rank == 0) Write(spdlog::level::info, message);
}
void LogWarning(absl::string_view message) { Write(spdlog::level::warn, message); }
void LogError(absl::string_view message) { Write(spdlog::level::err, message); }

}  // namespace distill
