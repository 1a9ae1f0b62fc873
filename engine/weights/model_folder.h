// The folder a model lives in, and which files of it may be opened. Owns the rule about symlinks; knows no format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/mapped_file.h"

namespace slipstream {

/// Files by plain name. A name that comes from a file (an index, a split count) cannot reach outside: names with a
/// slash are refused, and so are symlinks that leave the folder, except from
/// …/models--org--name/snapshots/REVISION/ into …/models--org--name/blobs/, which is how the hub cache is laid out.
class ModelFolder {
 public:
  /// The folder itself may be a symlink: its path is the operator's.
  static Result<ModelFolder> open(const std::string& path);

  const std::string& path() const { return path_; }
  Result<std::unique_ptr<MappedFile>> map(std::string_view name) const;
  /// The whole file, at most max_bytes. kNotFound when absent.
  Result<std::string> read(std::string_view name, uint64_t max_bytes) const;
  bool contains(std::string_view name) const;
  /// Names of the entries that end with `suffix`, sorted; at most 4096.
  std::vector<std::string> names_ending_with(std::string_view suffix) const;

 private:
  /// The real path of the entry, after the rules above.
  Result<std::string> real_path(std::string_view name) const;

  std::string path_;
  std::string real_root_;
  std::string real_blobs_;  // empty outside a hub cache
};

/// `text` as it may stand in a one-line message: quoted, control characters and bad UTF-8 escaped, at most ~100 bytes.
std::string quote_name(std::string_view text);

}  // namespace slipstream
