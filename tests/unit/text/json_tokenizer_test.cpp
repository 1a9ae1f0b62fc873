// tokenizer.json: what is read, what is refused. Equality with Hugging Face is tests/tokenizers/.
#include <nlohmann/json.hpp>

#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;
using Json = nlohmann::json;

namespace {

Json byte_level_json() {
  Json vocabulary = Json::object();
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) vocabulary[stand_in(std::string(1, static_cast<char>(byte)))] = id++;
  vocabulary["ab"] = id++;
  vocabulary["abc"] = id++;
  const auto added = [](int at, const char* content, bool special) {
    return Json{{"id", at}, {"content", content}, {"special", special}, {"normalized", false}};
  };
  return {{"added_tokens", {added(258, "<s>", true), added(259, "</s>", true), added(260, "<think>", false)}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {258}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", "ab c"}}}}};
}

std::string refusal(const Json& json, ErrorCode code) {
  const auto tokenizer = Tokenizer::from_json(json.dump());
  REQUIRE_FALSE(tokenizer.ok());
  INFO(tokenizer.error().message);
  CHECK(tokenizer.error().code == code);
  return tokenizer.error().message;
}

/// The refusal after the value at `pointer` was replaced.
std::string refusal(const char* pointer, Json value, ErrorCode code) {
  Json json = byte_level_json();
  json[Json::json_pointer(pointer)] = std::move(value);
  return refusal(json, code);
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

/// A model folder with files in memory.
class Folder final : public Checkpoint {
 public:
  std::map<std::string, std::string, std::less<>> files;
  CheckpointKind kind() const override { return CheckpointKind::kSafetensors; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const Metadata& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t) const override {
    const auto found = files.find(name);
    if (found == files.end()) return not_found(std::string(name) + " is not there");
    return found->second;
  }
  void release(const TensorEntry&) override {}

 private:
  std::string path_ = "memory";
  std::vector<TensorEntry> tensors_;
  Metadata metadata_;
};

}  // namespace

TEST_CASE("a byte-level tokenizer.json") {
  const auto loaded = Tokenizer::from_json(byte_level_json().dump());
  REQUIRE(loaded.ok());
  const Tokenizer& tokenizer = **loaded;
  CHECK(tokenizer.vocab_size() == 261);
  CHECK(ids(tokenizer, "abc<s>", true) == std::vector<int32_t>{257, 258});
  CHECK(ids(tokenizer, "e\xCC\x81") == std::vector<int32_t>{0xC3, 0xA9});
  CHECK(tokenizer.bos_id() == 258);
  CHECK(tokenizer.adds_bos());
  CHECK_FALSE(tokenizer.adds_eos());
  CHECK(tokenizer.eos_ids() == std::vector<int32_t>{259});
  CHECK_FALSE(tokenizer.is_special(260));
  CHECK(tokenizer.decode(std::vector<int32_t>{258, 257, 260, 259}, true) == "abc<think>");
}

TEST_CASE("the files beside tokenizer.json name bos and eos") {
  Folder folder;
  Json json = byte_level_json();
  json.erase("post_processor");
  folder.files["tokenizer.json"] = json.dump();
  folder.files["tokenizer_config.json"] = R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true})";
  folder.files["generation_config.json"] = R"({"eos_token_id": [260, 259]})";
  auto tokenizer = Tokenizer::load(folder);
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->bos_id() == 258);
  CHECK((*tokenizer)->adds_bos());
  CHECK((*tokenizer)->eos_ids() == std::vector<int32_t>{260, 259});
  folder.files["generation_config.json"] = R"({"eos_token_id": 261})";
  CHECK_FALSE(Tokenizer::load(folder).ok());
  folder.files["generation_config.json"] = "{";
  CHECK_FALSE(Tokenizer::load(folder).ok());
  folder.files.clear();
  const auto none = Tokenizer::load(folder);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::kNotFound);
}

TEST_CASE("what is not supported is refused by name") {
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"})
    CHECK(has(refusal("/model/type", type, kUnsupported), type));
  CHECK(has(refusal("/normalizer/type", "BertNormalizer", kUnsupported), "normalizer \"BertNormalizer\""));
  CHECK(has(refusal("/pre_tokenizer/type", "UnicodeScripts", kUnsupported), "pre-tokenizer \"UnicodeScripts\""));
  CHECK(has(refusal("/decoder/type", "CTC", kUnsupported), "decoder \"CTC\""));
  CHECK(has(refusal("/decoder", nullptr, kUnsupported), "\"decoder\" is missing"));
  CHECK(has(refusal("/post_processor/type", "BertProcessing", kUnsupported), "post-processor \"BertProcessing\""));
  CHECK(has(refusal("/model/dropout", 0.1, kUnsupported), "dropout"));
  CHECK(has(refusal("/model/continuing_subword_prefix", "##", kUnsupported), "continuing_subword_prefix"));
  CHECK(has(refusal("/pre_tokenizer", {{"type", "Metaspace"}}, kUnsupported), "disagree"));
}

TEST_CASE("damaged files are refused") {
  CHECK_FALSE(Tokenizer::from_json("").ok());
  CHECK_FALSE(Tokenizer::from_json("[]").ok());
  CHECK_FALSE(Tokenizer::from_json("{\"model\": 1}").ok());
  CHECK_FALSE(Tokenizer::from_json("{\"a\": \"\xFF\"}").ok());
  CHECK_FALSE(Tokenizer::from_json(std::string(200'000, '[')).ok());
  CHECK(has(refusal("/model/vocab", Json::array(), kCorrupt), "model.vocab"));
  CHECK(has(refusal("/model/vocab/ab", -1, kCorrupt), "the id of \"ab\" is -1"));
  CHECK(has(refusal("/model/vocab/ab", 1.5, kCorrupt), "the id of \"ab\" is 1.5"));
  CHECK(has(refusal("/model/vocab/ab", 1ull << 40, kCorrupt), "1099511627776; 0 to 16777215"));
  CHECK(has(refusal("/model/vocab/ab", 16'000'000, kCorrupt), "the highest id is 16000000"));
  CHECK(has(refusal("/model/vocab/ab", 257, kCorrupt), "have the same id 257"));
  CHECK(has(refusal("/model/merges/0", "a  b", kCorrupt), "exactly one space"));
  CHECK(has(refusal("/model/merges/0", {"a"}, kCorrupt), "neither"));
  CHECK(has(refusal("/model/merges/0", {"a", "x"}, kCorrupt), "their join is not in the vocabulary"));
  CHECK(has(refusal("/model/merges", 7, kCorrupt), "model.merges"));
  CHECK(has(refusal("/model/unk_token", "<none>", kCorrupt), "unk_token \"<none>\""));
  CHECK(has(refusal("/model/ignore_merges", "yes", kCorrupt), "ignore_merges"));
  CHECK(has(refusal("/added_tokens", 3, kCorrupt), "added_tokens"));
  CHECK(has(refusal("/added_tokens/0/content", "", kCorrupt), "0 bytes"));
  CHECK(has(refusal("/added_tokens/0/content", std::string(5000, 'x'), kCorrupt), "5000 bytes"));
  CHECK(has(refusal("/added_tokens/0/id", 259, kCorrupt), "same id"));
  CHECK(has(refusal("/added_tokens/0/special", 1, kCorrupt), "special"));
  CHECK(has(refusal("/post_processor/special_tokens/<s>/ids/0", 99'999, kCorrupt), "99999"));
  CHECK(has(refusal("/post_processor/single/0/SpecialToken/id", "<x>", kCorrupt), "<x>"));
  CHECK(has(refusal("/post_processor/single/0/SpecialToken", 5, kCorrupt), "post-processor"));
  CHECK(has(refusal("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}}, kCorrupt), "does not compile"));
  CHECK(has(refusal("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", 1}}, kCorrupt), "pretokenizers"));
}
