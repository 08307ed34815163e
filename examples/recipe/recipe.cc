#include "examples/recipe/recipe.h"

#include <cstdio>

#include "libdistill/world/world.h"

namespace distill {

int PrintMessage(const std::string& message) {
  const auto world = ReadWorld();
  if (!world.ok() || world->rank == 0) std::fputs(message.c_str(), stdout);
  return 0;
}

int PrintPlan(const std::function<absl::StatusOr<std::string>(const World& world)>& plan) {
  const auto world = ReadWorld();
  if (world.ok() && world->rank != 0) return 0;
  const auto text = world.ok() ? plan(*world) : world.status();
  if (text.ok()) std::fputs(text->c_str(), stdout);
  if (!text.ok()) std::fprintf(stderr, "error: %s\n", std::string(text.status().message()).c_str());
  return text.ok() ? 0 : absl::IsResourceExhausted(text.status()) ? 1 : 2;
}

}  // namespace distill
