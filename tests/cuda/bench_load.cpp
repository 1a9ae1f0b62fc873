// How fast weights reach the device: from a mapped file in the page cache, from a cold one, and made on the device. The ceilings
// (pinned memory to the device; the disk with several readers) are measured in the same run.
//
//   cuda_bench_load [GIB] [FOLDER]      the file's size (default 8) and where it is made (default: the current folder)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine/weights/mapped_file.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/weight_stream.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int64_t kCols = 4096, kRows = 12288;

double pinned_ceiling(Context& context) {
  constexpr size_t kBytes = size_t{256} << 20;
  void* host = nullptr;
  check(cudaMallocHost(&host, kBytes), "cudaMallocHost");
  std::memset(host, 1, kBytes);
  Buffer device = context.allocate(kBytes);
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    context.synchronize();
    const double start = now();
    for (int i = 0; i < 8; ++i)
      check(cudaMemcpyAsync(device.data(), host, kBytes, cudaMemcpyHostToDevice, context.stream()), "copy");
    context.synchronize();
    rates.push_back(8.0 * static_cast<double>(kBytes) / (now() - start) / 1e9);
  }
  cudaFreeHost(host);
  std::ranges::sort(rates);
  return rates[2];
}

void make_file(const std::string& path, size_t bytes) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  std::vector<uint64_t> chunk((size_t{64} << 20) / 8);
  uint64_t x = 88172645463325252u;
  for (uint64_t& w : chunk) w = (x ^= x << 13, x ^= x >> 7, x ^= x << 17) & 0x3fff3fff3fff3fffu;  // small halves, valid scales
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = ::write(file, chunk.data(), std::min(bytes - at, chunk.size() * 8));
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  ::fsync(file);
  ::close(file);
}

void drop(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

/// Eight readers of 4 MiB pieces, the file cold.
double disk_ceiling(const std::string& path, size_t bytes) {
  drop(path);
  const int file = ::open(path.c_str(), O_RDONLY);
  const double start = now();
  std::vector<std::thread> threads;
  constexpr size_t kPiece = 4 << 20, kReaders = 8;
  for (size_t t = 0; t < kReaders; ++t)
    threads.emplace_back([&, t] {
      std::vector<char> buffer(kPiece);
      for (size_t at = t * kPiece; at < bytes; at += kReaders * kPiece)
        if (::pread(file, buffer.data(), kPiece, static_cast<off_t>(at)) <= 0) return;
    });
  for (std::thread& thread : threads) thread.join();
  const double seconds = now() - start;
  ::close(file);
  return static_cast<double>(bytes) / seconds / 1e9;
}

/// Uploads the file as matrices of one format; GB/s of stored bytes, the stream's memory being there already.
double upload(Context& context, const MappedFile& file, DType dtype) {
  const int64_t row = row_bytes(dtype, kCols);
  const size_t matrix = static_cast<size_t>(kRows * row);
  const size_t count = file.bytes().size() / matrix;
  WeightStream stream(context);
  const auto load = [&](size_t first, int64_t rows) {
    WeightPart part;
    part.name = "w", part.dtype = dtype, part.rows = rows, part.cols = kCols, part.row_stride_bytes = row;
    part.data = file.bytes().data() + first;
    WeightSpec spec;
    spec.parts.push_back(part);
    return make_cuda_weight(context, stream, std::move(spec));
  };
  load(0, 16);
  std::vector<std::unique_ptr<CudaWeight>> weights;
  context.synchronize();
  const double start = now();
  for (size_t i = 0; i < count; ++i) weights.push_back(load(i * matrix, kRows));
  context.synchronize();
  return static_cast<double>(count * matrix) / (now() - start) / 1e9;
}

/// Seconds that a stream's memory and threads take.
double stream_start(Context& context) {
  std::vector<std::byte> bytes(4096);
  Buffer device = context.allocate(bytes.size());
  context.synchronize();
  const double start = now();
  WeightStream stream(context);
  stream.copy(bytes.data(), 4096, 1, 4096, device.as<std::byte>());
  return now() - start;
}

double make_dummies(Context& context, DType dtype, size_t bytes) {
  const int64_t row = row_bytes(dtype, kCols);
  const size_t count = bytes / static_cast<size_t>(kRows * row);
  WeightStream stream(context);
  std::vector<std::unique_ptr<CudaWeight>> weights;
  context.synchronize();
  const double start = now();
  for (size_t i = 0; i < count; ++i) {
    WeightSpec spec;
    WeightPart part;
    part.name = "w", part.dtype = dtype, part.rows = kRows, part.cols = kCols, part.row_stride_bytes = row;
    part.dummy = {i + 1, kCols, 0};
    spec.parts.push_back(part);
    weights.push_back(make_cuda_weight(context, stream, std::move(spec)));
  }
  context.synchronize();
  return static_cast<double>(count) * static_cast<double>(kRows * row) / (now() - start) / 1e9;
}

}  // namespace

int main(int argc, char** argv) try {
  const size_t bytes = static_cast<size_t>(argc > 1 ? std::stoi(argv[1]) : 8) << 30;
  const std::string path = std::string(argc > 2 ? argv[2] : ".") + "/bench_load.tmp";
  Context context(0);
  const double ceiling = pinned_ceiling(context);
  std::printf("pinned memory to device: %.1f GB/s\n", ceiling);
  for (const DType dtype : {DType::kBF16, DType::kQ4_K, DType::kQ8_0})
    std::printf("made on the device, %s: %.0f GB/s\n", std::string(dtype_info(dtype).name).c_str(),
                make_dummies(context, dtype, bytes));
  make_file(path, bytes);
  auto file = MappedFile::open(path);
  if (!file.ok()) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  std::printf("pinned buffers and threads: %.0f ms\n", 1e3 * stream_start(context));
  for (const DType dtype : {DType::kBF16, DType::kQ4_K}) {
    std::vector<double> rates;
    for (int round = 0; round < 3; ++round) {
      // pages of the mapping are new each time, as at a start; those of the file stay in memory
      file = MappedFile::open(path);
      rates.push_back(upload(context, **file, dtype));
    }
    std::ranges::sort(rates);
    std::printf("page cache to device, %s: %.1f GB/s (%.1f-%.1f), %.0f %% of the ceiling\n",
                std::string(dtype_info(dtype).name).c_str(), rates[1], rates[0], rates[2], 100 * rates[1] / ceiling);
  }
  const std::string other = path + ".none";  // pages of a file that is mapped and touched cannot be dropped
  make_file(other, 1 << 20);
  file = MappedFile::open(other);
  const double disk = disk_ceiling(path, bytes);
  std::printf("disk, eight readers: %.2f GB/s\n", disk);
  drop(path);
  file = MappedFile::open(path);
  const double rate = upload(context, **file, DType::kBF16);
  std::printf("cold file to device: %.2f GB/s, %.0f %% of the disk\n", rate, 100 * rate / disk);
  ::unlink(other.c_str());
  ::unlink(path.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_load: %s\n", error.what());
  return 1;
}
