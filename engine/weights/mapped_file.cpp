#include "engine/weights/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace slipstream {

Error file_error(const char* verb, const std::string& path, int error_number) {
  const std::string text = std::string("cannot ") + verb + " '" + path + "': " + std::strerror(error_number);
  return error_number == ENOENT || error_number == ENOTDIR ? not_found(text) : io_error(text);
}

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path, const std::string& shown_as) {
  // Non-blocking, so that a pipe put in place of a file cannot hang the start.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return file_error("open", shown_as, errno);
  std::unique_ptr<MappedFile> file(new MappedFile(shown_as, descriptor));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return file_error("stat", shown_as, errno);
  if (!S_ISREG(status.st_mode)) return io_error("'" + shown_as + "' is not a regular file");
  file->size_ = static_cast<size_t>(status.st_size);
  if (file->size_ == 0) return file;  // an empty mapping is an error of its own
  void* address = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return file_error("map", shown_as, errno);
  file->data_ = static_cast<const std::byte*>(address);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  ::close(descriptor_);
}

void MappedFile::prefetch() const {
  // Beyond this the call itself waits for the disk, and may push out pages that are needed sooner.
  constexpr size_t kLargest = size_t{1} << 30;
  if (size_ > 0 && size_ <= kLargest) ::madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED);
}

void MappedFile::drop_pages(const std::byte* first, uint64_t count) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(first) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(first) + count) / page * page;
  // Advice only: when it fails, the pages merely stay resident.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Status MappedFile::check_size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return file_error("stat", path_, errno);
  if (static_cast<size_t>(status.st_size) == size_) return Ok{};
  return corrupt("'" + path_ + "' changed from " + std::to_string(size_) + " to " + std::to_string(status.st_size) +
                 " bytes while it was mapped; replace model files by rename, not in place, and restart");
}

}  // namespace slipstream
