#include "tests/support/temp_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace distill::testing {

TempFolder::TempFolder() {
  path_ = std::filesystem::temp_directory_path() / "distill-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;  // a test that took its own permissions away still ends
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, const std::string& contents) const {
  const std::string path = *this / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << contents).flush()) throw std::runtime_error("cannot write " + path);
  return path;
}

std::string TempFolder::Read(const std::string& name) const {
  std::ifstream file(*this / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace distill::testing
