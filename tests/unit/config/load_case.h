// A command line, an environment and an optional YAML file, loaded: for the tests of config/.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/sources.h"

namespace slipstream::config {

/// A file that goes away with its owner.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& name = "case.yaml") {
    std::string pattern = (std::filesystem::temp_directory_path() / "slipstream-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/" + name;
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

inline Result<Config> load_args(std::vector<std::string> args, const Environment& environment = {}) {
  return load(args, environment, Need::kNothing);
}

inline std::string error_of(const Result<Config>& result) { return result.ok() ? "" : result.error().message; }

/// The error of a YAML text, with the file's folder cut off: "case.yaml:2: ...".
inline std::string yaml_error(const std::string& text) {
  TemporaryFile file(text);
  std::string message = error_of(load_args({"--config", file.path()}));
  for (size_t at; (at = message.find(file.path())) != std::string::npos;) {
    message.replace(at, file.path().size(), "case.yaml");
  }
  return message;
}

}  // namespace slipstream::config
