#include "engine/weights/model_folder.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Empty, with errno set, when it does not exist (or its links form a cycle).
std::optional<std::string> resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return std::nullopt;
  std::string out(real);
  std::free(real);
  return out;
}

bool is_inside(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() + 1 && path.compare(0, folder.size(), folder) == 0 &&
         (folder.back() == '/' || path[folder.size()] == '/');
}

/// The blobs folder that belongs to a snapshot folder of a hub cache, or nothing.
std::string blobs_of_snapshot(const std::string& real_root) {
  const fs::path root(real_root);
  const fs::path repository = root.parent_path().parent_path();
  if (root.parent_path().filename() != "snapshots") return {};
  if (repository.filename().string().rfind("models--", 0) != 0) return {};
  return resolved((repository / "blobs").string()).value_or(std::string());
}

}  // namespace

std::string quote_name(std::string_view text) {
  constexpr size_t kShown = 100;
  return log::json_quote_cut(text, kShown);
}

Result<ModelFolder> ModelFolder::open(const std::string& path) {
  ModelFolder folder;
  folder.path_ = path;
  auto real = resolved(path);
  if (!real) return file_error("open", path, errno);
  folder.real_root_ = std::move(*real);
  folder.real_blobs_ = blobs_of_snapshot(folder.real_root_);
  return folder;
}

Result<std::string> ModelFolder::real_path(std::string_view name) const {
  if (name.empty() || name.size() > NAME_MAX || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos) {
    return corrupt("'" + path_ + "': " + quote_name(name) + " is not a plain file name; files of a model lie in its folder");
  }
  const std::string joined = path_ + "/" + std::string(name);
  auto real = resolved(joined);
  if (!real) return file_error("open", joined, errno);
  const bool in_blobs = !real_blobs_.empty() && is_inside(*real, real_blobs_);
  if (!is_inside(*real, real_root_) && !in_blobs) {
    return io_error("'" + joined + "' is a link out of the model folder, to '" + *real +
                    "'; put the file itself there, or pass the folder that holds it");
  }
  return std::move(*real);
}

Result<std::unique_ptr<MappedFile>> ModelFolder::map(std::string_view name) const {
  SLIP_TRY(const std::string real, real_path(name));
  return MappedFile::open(real, path_ + "/" + std::string(name));
}

Result<std::string> ModelFolder::read(std::string_view name, uint64_t max_bytes) const {
  SLIP_TRY(const std::string real, real_path(name));
  const std::string shown = path_ + "/" + std::string(name);
  const int descriptor = ::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  if (descriptor < 0) return file_error("open", shown, errno);
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return file_error("stat", shown, errno);
  if (!S_ISREG(status.st_mode)) return io_error("'" + shown + "' is not a regular file");
  if (static_cast<uint64_t>(status.st_size) > max_bytes) {
    return corrupt("'" + shown + "' has " + std::to_string(status.st_size) + " bytes, more than the " +
                   std::to_string(max_bytes) + " that such a file may have");
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", shown, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

bool ModelFolder::contains(std::string_view name) const {
  struct stat status {};
  return ::lstat((path_ + "/" + std::string(name)).c_str(), &status) == 0;
}

std::vector<std::string> ModelFolder::names_ending_with(std::string_view suffix) const {
  constexpr size_t kMost = 4096;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end && names.size() < kMost;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.size() >= suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace slipstream
