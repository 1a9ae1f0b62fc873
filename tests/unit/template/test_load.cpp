// Where a checkpoint keeps its template: a file beside the weights, tokenizer_config.json, or a GGUF key.
#include <map>

#include "tests/catch.h"
#include "tests/unit/template/render_case.h"

namespace slipstream {
namespace {

class FakeCheckpoint : public Checkpoint {
 public:
  explicit FakeCheckpoint(CheckpointKind kind) : kind_(kind) {}
  CheckpointKind kind() const override { return kind_; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) return not_found(std::string(name) + " is missing");
    if (found->second.size() > max_bytes) return corrupt(std::string(name) + " is too large");
    return found->second;
  }
  void release(const TensorEntry&) override {}

  std::map<std::string, std::string, std::less<>> files_;
  std::map<std::string, MetaValue, std::less<>> metadata_;

 private:
  CheckpointKind kind_;
  std::string path_ = "model";
  std::vector<TensorEntry> tensors_;
};

class FakeTokenizer : public Tokenizer {
 public:
  int32_t vocab_size() const override { return 3; }
  Result<std::vector<int32_t>> encode(std::string_view, bool) const override { return std::vector<int32_t>(); }
  Result<std::vector<int32_t>> encode(std::span<const PromptSegment>) const override { return std::vector<int32_t>(); }
  std::string_view token_bytes(int32_t id) const override { return id == 1 ? "<bos>" : id == 2 ? "<eos>" : ""; }
  bool is_special(int32_t) const override { return true; }
  int32_t token_id(std::string_view) const override { return -1; }
  int32_t bos_id() const override { return bos_; }
  std::vector<int32_t> eos_ids() const override { return {2, 0}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  std::string description() const override { return "fake"; }
  int32_t bos_ = 1;
};

std::string text_of(const Checkpoint& checkpoint, const FakeTokenizer& tokenizer = {}) {
  const auto loaded = ChatTemplate::load(checkpoint, tokenizer);
  if (!loaded.ok()) return "error: " + loaded.error().message;
  const auto segments = (*loaded)->render(RenderInput{});
  return segments.ok() ? joined_text(*segments) : "error: " + segments.error().message;
}

TEST_CASE("a folder's chat_template.jinja comes before tokenizer_config.json") {
  FakeCheckpoint folder(CheckpointKind::kSafetensors);
  folder.files_["tokenizer_config.json"] = R"({"chat_template": "config {{ bos_token }}{{ eos_token }}"})";
  CHECK(text_of(folder) == "config <bos><eos>");
  folder.files_["chat_template.jinja"] = "file {{ bos_token }}{{ eos_token }}";
  CHECK(text_of(folder) == "file <bos><eos>");
}

TEST_CASE("a token that the tokenizer lacks is undefined to the template") {
  FakeCheckpoint folder(CheckpointKind::kSafetensors);
  folder.files_["chat_template.jinja"] = "{{ bos_token is defined }}{{ eos_token is defined }}";
  FakeTokenizer tokenizer;
  tokenizer.bos_ = -1;
  CHECK(text_of(folder, tokenizer) == "FalseTrue");
}

TEST_CASE("a list of named templates offers 'default', or else its first") {
  FakeCheckpoint folder(CheckpointKind::kSafetensors);
  folder.files_["tokenizer_config.json"] =
      R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})";
  CHECK(text_of(folder) == "D");
  folder.files_["tokenizer_config.json"] = R"({"chat_template": [{"name": "tool_use", "template": "T"}]})";
  CHECK(text_of(folder) == "T");
}

TEST_CASE("a GGUF keeps its template under tokenizer.chat_template") {
  FakeCheckpoint gguf(CheckpointKind::kGguf);
  gguf.metadata_["tokenizer.chat_template"] = std::string("G{{ eos_token }}");
  CHECK(text_of(gguf) == "G<eos>");
  gguf.metadata_["tokenizer.chat_template"] = int64_t{5};
  CHECK(text_of(gguf) == "error: the GGUF key tokenizer.chat_template is not a string");
}

TEST_CASE("a model without a template, and broken files, are told apart") {
  const FakeTokenizer tokenizer;
  FakeCheckpoint folder(CheckpointKind::kSafetensors);
  CHECK(ChatTemplate::load(folder, tokenizer).error().code == ErrorCode::kNotFound);
  folder.files_["tokenizer_config.json"] = R"({"model_max_length": 1})";
  CHECK(ChatTemplate::load(folder, tokenizer).error().code == ErrorCode::kNotFound);
  for (const char* broken : {"{", "[]", R"({"chat_template": 5})", R"({"chat_template": [{"name": "x"}]})"}) {
    folder.files_["tokenizer_config.json"] = broken;
    CHECK(ChatTemplate::load(folder, tokenizer).error().code == ErrorCode::kCorrupt);
  }
  const FakeCheckpoint gguf(CheckpointKind::kGguf);
  CHECK(ChatTemplate::load(gguf, tokenizer).error().code == ErrorCode::kNotFound);
  folder.files_["chat_template.jinja"] = "{% if %}";
  CHECK(ChatTemplate::load(folder, tokenizer).error().message.find("line 1") != std::string::npos);
}

}  // namespace
}  // namespace slipstream
