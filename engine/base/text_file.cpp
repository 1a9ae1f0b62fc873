// See text_file.h.
#include "engine/base/text_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/base/log.h"

namespace slipstream {

Result<std::string> read_text_file(const std::string& path, const std::string& what, int64_t limit_bytes) {
  constexpr size_t kShownBytes = 80;
  const std::string name = what + " " + log::json_quote_cut(path, kShownBytes);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return io_error(name + " cannot be read: " + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return io_error(name + " is a folder; give a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error(name + " cannot be read: " + std::strerror(errno));
  // Read up to the limit and one more, since a pipe or a growing file has no size to trust.
  std::string text(static_cast<size_t>(limit_bytes) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) > limit_bytes)
    return invalid_argument(name + " is over the limit of " + std::to_string(limit_bytes) + " bytes");
  return text;
}

}  // namespace slipstream
