// Incremental text equals the whole-string decode; stop strings do not depend on how the text is cut.
#include "engine/text/detokenizer.h"

#include "engine/text/unicode.h"
#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& row, bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string out;
  for (const int32_t id : row) {
    const std::string piece = detokenizer.push(id);
    REQUIRE(unicode::first_invalid_utf8(piece) == std::string_view::npos);
    out += piece;
  }
  return out + detokenizer.finish();
}

}  // namespace

TEST_CASE("a character comes out when it is whole") {
  const auto tokenizer = loaded(byte_level({}));
  Detokenizer detokenizer(tokenizer, true);
  const auto byte = [&](uint8_t value) { return detokenizer.push(kFirstByte + value); };
  CHECK(byte(0xF0).empty());
  CHECK(byte(0x9F).empty());
  CHECK(detokenizer.push(kStart).empty());  // a skipped token does not break the character
  CHECK(byte(0x99).empty());
  CHECK(byte(0x82) == "\xF0\x9F\x99\x82");
  CHECK(byte(0xE4).empty());
  CHECK(byte('a') == "\xEF\xBF\xBD" "a");
  CHECK(byte(0xE4).empty());
  CHECK(detokenizer.finish() == "\xEF\xBF\xBD");
  CHECK(detokenizer.finish().empty());
  CHECK(detokenizer.push(100'000).empty());
  CHECK(detokenizer.push(-1).empty());
}

TEST_CASE("special tokens are skipped or shown; added ones that are not special are text") {
  const auto tokenizer = loaded(byte_level({}));
  const std::vector<int32_t> row{kStart, kThink, kFirstByte + 'x', kEndThink, kEnd};
  CHECK(streamed(tokenizer, row, true) == "<think>x</think>");
  CHECK(streamed(tokenizer, row, false) == "<|start|><think>x</think><|end|>");
  CHECK(tokenizer->decode(row, true) == "<think>x</think>");
}

TEST_CASE("SentencePiece drops one space, at the start only") {
  const auto tokenizer = loaded(sentencepiece({{"\xE2\x96\x81", -1}, {"a", -2}, {"\xE2\x96\x81" "a", -0.5}}));
  const auto text = ids(*tokenizer, "a a");
  CHECK(text == std::vector<int32_t>{261, 261});
  CHECK(tokenizer->decode(text, true) == "a a");
  CHECK(streamed(tokenizer, text, true) == "a a");
  CHECK(streamed(tokenizer, {259, 259, 260}, true) == " a");
  CHECK(streamed(tokenizer, {1, 261}, true) == "a");
  CHECK(streamed(tokenizer, {1, 261}, false) == "<s> a");
  CHECK(tokenizer->decode(std::vector<int32_t>{1, 261}, false) == "<s> a");
  CHECK(streamed(tokenizer, {260, 261}, true) == "a a");
}

TEST_CASE("random token streams: valid UTF-8 throughout, equal to the whole-string decode") {
  const auto bytes = loaded(byte_level({{"\xF0", "\x9F"}, {"\xE4", "\xB8"}, {"a", "\xC3"}, {" ", "a"}}));
  const auto pieces = loaded(sentencepiece({{"\xE2\x96\x81", -1}, {"a", -2}, {"\xC3\xA9", -3}, {"\xE2\x96\x81" "a", -4}}));
  Random random(11);
  for (int round = 0; round < 4000; ++round) {
    const auto& tokenizer = round % 2 == 0 ? bytes : pieces;
    std::vector<int32_t> row(random.below(60));
    for (int32_t& id : row) id = static_cast<int32_t>(random.below(static_cast<uint32_t>(tokenizer->vocab_size() + 1)));
    const bool skip = random.below(2) == 0;
    REQUIRE(streamed(tokenizer, row, skip) == tokenizer->decode(row, skip));
  }
}

TEST_CASE("stop strings: held back, cut, included") {
  StopStrings stops({"###", "END", "ENDING"}, false);
  auto piece = stops.push("abc#");
  CHECK(piece.text == "abc");
  CHECK(piece.matched == -1);
  piece = stops.push("#d##");
  CHECK(piece.text == "##d");
  piece = stops.push("x E");
  CHECK(piece.text == "##x ");
  piece = stops.push("NDING");
  CHECK(piece.text.empty());
  CHECK(piece.matched == 1);  // END ends first

  StopStrings including({"stop"}, true);
  CHECK(including.push("a sto").text == "a ");
  piece = including.push("p and more");
  CHECK(piece.text == "stop");
  CHECK(piece.matched == 0);

  StopStrings unfinished({"stop"}, false);
  CHECK(unfinished.push("a sto").text == "a ");
  CHECK(unfinished.finish() == "sto");

  StopStrings together({"b", "ab"}, false);  // both end at the same place: the longer one
  piece = together.push("xab");
  CHECK(piece.text == "x");
  CHECK(piece.matched == 1);

  StopStrings none({"", "zz"}, false);
  CHECK(none.push("abc").text == "abc");
}

TEST_CASE("stop strings do not depend on the cuts") {
  Random random(13);
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> list;
    for (uint32_t i = 0, count = 1 + random.below(4); i < count; ++i) {
      std::string stop;
      for (uint32_t k = 0, length = 1 + random.below(5); k < length; ++k) stop += static_cast<char>('a' + random.below(2));
      list.push_back(stop);
    }
    std::string text;
    for (uint32_t k = 0, length = random.below(24); k < length; ++k) text += static_cast<char>('a' + random.below(3));
    // By definition: the smallest end at which some stop string is a suffix, the longest such string.
    std::string expected = text;
    int32_t which = -1;
    for (size_t end = 1; end <= text.size() && which < 0; ++end)
      for (size_t i = 0; i < list.size(); ++i) {
        const bool ends = end >= list[i].size() && text.compare(end - list[i].size(), list[i].size(), list[i]) == 0;
        if (!ends || (which >= 0 && list[i].size() <= list[static_cast<size_t>(which)].size())) continue;
        which = static_cast<int32_t>(i);
        expected = text.substr(0, end - list[i].size());
      }
    StopStrings stops(list, false);
    std::string out;
    int32_t matched = -1;
    for (size_t at = 0; at < text.size() && matched < 0;) {
      const size_t take = 1 + random.below(4);
      const auto piece = stops.push(std::string_view(text).substr(at, take));
      out += piece.text;
      matched = piece.matched;
      at += take;
    }
    if (matched < 0) out += stops.finish();
    REQUIRE(out == expected);
    REQUIRE(matched == which);
    matches += which >= 0;
  }
  CHECK(matches > 500);
}
