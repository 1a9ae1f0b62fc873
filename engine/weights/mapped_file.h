// One regular file mapped read-only. Owns the mapping and the descriptor; knows no format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/result.h"

namespace slipstream {

/// Thread-safe, except against its own destruction. Bytes stay readable as long as nobody truncates the file: see
/// Checkpoint::check_unchanged.
class MappedFile {
 public:
  /// `path` is followed through symlinks. kNotFound, or kIo for what is not a regular file. Messages call it
  /// `shown_as`, so that a hub cache's link keeps its name.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path, const std::string& shown_as);
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path) { return open(path, path); }
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Starts reading the file from disk in the background, when it is small enough to be wanted whole at once. Reading
  /// a cold file of 98 MB took 65 to 97 ms with it and 64 to 375 ms without; a warm one does not notice.
  void prefetch() const;
  /// Drops the resident pages that lie wholly inside [first, first + count); they come back from the file when read.
  void drop_pages(const std::byte* first, uint64_t count) const;
  Status check_size() const;

 private:
  MappedFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// "cannot open 'x': Permission denied" with the code that fits errno.
Error file_error(const char* verb, const std::string& path, int error_number);

}  // namespace slipstream
