// A folder of a test's own, with all that is in it gone when the test ends.
//
//   const TempFolder folder;
//   const std::string path = folder.Write("a.json", "{}");
//   CHECK(folder.Read("a.json") == "{}");
#pragma once

#include <string>

namespace distill::testing {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Bytes as they are, over what was there, in folders that are made where they are missing; the file's path.
  std::string Write(const std::string& name, const std::string& contents) const;
  // All of a file; "" when there is none.
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace distill::testing
