// A GGUF file from anywhere: what its metadata says about the model and the tokenizer. fuzz_gguf has the header itself.
#include <algorithm>

#include "engine/base/log.h"
#include "engine/weights/gguf_header.h"
#include "tests/fuzz/model/check_config.h"
#include "tests/fuzz/text/check_tokenizer.h"

using namespace slipstream;

namespace {

class HeaderCheckpoint final : public Checkpoint {
 public:
  explicit HeaderCheckpoint(GgufHeader header) : header_(std::move(header)) {
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  }
  CheckpointKind kind() const override { return CheckpointKind::kGguf; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return header_.tensors; }
  const Metadata& metadata() const override { return header_.metadata; }
  Result<std::string> read_side_file(std::string_view name, uint64_t) const override {
    return not_found(std::string(name) + " is absent");
  }
  void release(const TensorEntry&) override {}

 private:
  GgufHeader header_;
  std::string path_ = "fuzz.gguf";
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  log::init("error", "text");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto header = read_gguf_header({reinterpret_cast<const std::byte*>(data), size});
  if (!header.ok()) return 0;
  const HeaderCheckpoint checkpoint(std::move(*header));
  check_config(read_model_config(checkpoint));
  check_drafter(read_drafter_config(checkpoint));
  const auto tokenizer = Tokenizer::from_gguf(checkpoint.metadata());
  if (!tokenizer.ok()) return 0;
  check_encoding(*tokenizer, "hello <s> <|end|>\n\xC3\xA9 12");
  const size_t tail = std::min<size_t>(size, 32);  // tensor data: any bytes
  check_encoding(*tokenizer, {reinterpret_cast<const char*>(data) + size - tail, tail});
  return 0;
}
