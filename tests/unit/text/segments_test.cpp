// Trust: special tokens come from template text only, whatever user text spells and however it is cut; and where user
// text spells none, the ids are those of the joined string.
#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::vector<int32_t> encoded(const Tokenizer& tokenizer, const std::vector<PromptSegment>& segments) {
  const auto found = tokenizer.encode(segments);
  REQUIRE(found.ok());
  return *found;
}

int markers(const std::vector<int32_t>& row) {
  int count = 0;
  for (const int32_t id : row) count += id < kFirstByte;
  return count;
}

const std::vector<std::string> kMarkers{"<|end|>", "<|start|>", "<think>", "</think>"};

std::string joined(const std::vector<PromptSegment>& segments) {
  std::string out;
  for (const auto& segment : segments) out += segment.text;
  return out;
}

std::vector<std::shared_ptr<const Tokenizer>> tokenizers() {
  const auto merges = std::vector<std::pair<std::string, std::string>>{
      {"<", "|"}, {"|", ">"}, {"<|", "e"}, {"e", "n"}, {"en", "d"}, {" ", "a"}, {"t", "h"}, {"a", "\n"}, {"\n", "a"}};
  return {loaded(byte_level(merges)), loaded(byte_level(merges, "llama-bpe")), loaded(byte_level(merges, "qwen35"))};
}

}  // namespace

TEST_CASE("user text never yields a marker: alone, cut, nested, beside template text") {
  for (const auto& tokenizer : tokenizers()) {
    for (const std::string& marker : kMarkers) {
      CHECK(markers(encoded(*tokenizer, {{marker, true}})) == 1);
      for (const std::string& text : {marker, marker + marker, "a" + marker + "b", marker.substr(0, 2) + marker + marker.substr(2)}) {
        const auto row = encoded(*tokenizer, {{text, false}});
        CHECK(markers(row) == 0);
        CHECK(tokenizer->decode(row, true) == text);
        // In a turn: exactly the template's own two.
        const auto turn = encoded(*tokenizer, {{"<|start|>user\n", true}, {text, false}, {"<|end|>\n", true}});
        CHECK(markers(turn) == 2);
        CHECK(tokenizer->decode(turn, false) == "<|start|>user\n" + text + "<|end|>\n");
      }
      for (size_t cut = 1; cut < marker.size(); ++cut) {
        const std::string left = marker.substr(0, cut), right = marker.substr(cut);
        CHECK(markers(encoded(*tokenizer, {{left, false}, {right, false}})) == 0);
        CHECK(markers(encoded(*tokenizer, {{left, true}, {right, false}})) == 0);
        CHECK(markers(encoded(*tokenizer, {{left, false}, {right, true}})) == 0);
        CHECK(markers(encoded(*tokenizer, {{left, true}, {"", false}, {right, true}})) == 1);
      }
      CHECK(markers(ids(*tokenizer, marker)) == 0);
    }
  }
}

TEST_CASE("where user text spells no marker, segments encode like the joined string") {
  Random random(23);
  int with_markers = 0;
  for (const auto& tokenizer : tokenizers()) {
    for (int round = 0; round < 1500; ++round) {
      std::vector<PromptSegment> segments;
      for (uint32_t i = 0, count = random.below(6); i < count; ++i) {
        PromptSegment segment;
        segment.trusted = random.below(2) == 0;
        for (uint32_t k = random.below(6); k > 0; --k) {
          static const std::vector<std::string> kParts{"a", " a", "en", "d", "\n", " ", "th", "1", "\xC3\xA9", "e\xCC\x81", "\xCC\x81"};
          segment.text += segment.trusted && random.below(3) == 0 ? kMarkers[random.below(4)] : kParts[random.below(11)];
        }
        segments.push_back(segment);
      }
      const auto row = encoded(*tokenizer, segments);
      REQUIRE(row == ids(*tokenizer, joined(segments), true));
      with_markers += markers(row) > 0;
    }
  }
  CHECK(with_markers > 1000);
}

TEST_CASE("plain added tokens match in user text, markers do not") {
  auto metadata = byte_level({});
  auto& tokens = std::get<std::vector<std::string>>(metadata["tokenizer.ggml.tokens"]);
  auto& types = std::get<std::vector<int64_t>>(metadata["tokenizer.ggml.token_type"]);
  for (const char* added : {"    ", "[INST]", "caf\xC3\xA9"}) {
    tokens.push_back(added);
    types.push_back(4);
  }
  const auto tokenizer = loaded(metadata);
  CHECK(ids(*tokenizer, "    ") == std::vector<int32_t>{260});
  CHECK(ids(*tokenizer, "caf\xC3\xA9") == std::vector<int32_t>{262});
  CHECK(ids(*tokenizer, "[INST]").size() == 6);
  CHECK(ids(*tokenizer, "[INST]", true) == std::vector<int32_t>{261});
}

TEST_CASE("normalized added tokens know where trust ends") {
  // A prefix and a replacement in front of the search: borders move.
  const std::string json = R"({"added_tokens": [
      {"id": 0, "content": "<a b>", "special": true, "normalized": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "__"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "?", "vocab": {"_<a__b>": 0, "?": 1, "_": 2, "<": 3, "a": 4, "b": 5, ">": 6},
      "merges": []}})";
  const auto loaded = Tokenizer::from_json(json);
  INFO((loaded.ok() ? std::string() : loaded.error().message));
  REQUIRE_FALSE(loaded.ok());  // the same id for two contents
  std::string fixed = json;
  fixed.replace(fixed.find("\"_<a__b>\": 0, "), 14, "");
  const auto good = Tokenizer::from_json(fixed);
  REQUIRE(good.ok());
  // The content is normalized too: "_<a__b>" is looked for.
  CHECK(ids(**good, "<a b>", true) == std::vector<int32_t>{0});
  CHECK(ids(**good, "<a b>") == std::vector<int32_t>{2, 3, 4, 2, 2, 5, 6});
  const std::vector<PromptSegment> mixed{{" ", false}, {"_<a b>", true}, {" a", false}};
  CHECK(encoded(**good, mixed) == std::vector<int32_t>{2, 2, 2, 0, 2, 2, 4});
  const std::vector<PromptSegment> half{{" _<a", true}, {" b>", false}};
  CHECK(encoded(**good, half) == std::vector<int32_t>{2, 2, 2, 2, 3, 4, 2, 2, 5, 6});
}
