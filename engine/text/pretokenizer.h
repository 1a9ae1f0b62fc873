// Cuts normalized text into the words inside which tokens are merged: the steps of a tokenizer.json pre_tokenizer, or
// the named expression of a GGUF file. Knows no tokens.
//
// Const and shared between threads.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "engine/text/pattern.h"

namespace slipstream {

/// A text and the words in it, in order. Steps that change characters replace the text.
struct Words {
  std::string text;
  std::vector<Pattern::Range> ranges;  // not empty each
};

class PreTokenizer {
 public:
  /// What becomes of the matches of a split.
  enum class Behavior { kRemoved, kIsolated, kContiguous, kMergedWithPrevious, kMergedWithNext };
  enum class Prefix { kNever, kFirst, kAlways };

  struct Split { Pattern pattern; Behavior behavior; bool invert; };
  struct Digits { bool individual; };
  struct Punctuation { Behavior behavior; };
  /// Words become bytes; with `use_expression` they are cut by GPT-2's expression first.
  struct ByteLevel { bool prefix_space; bool use_expression; };
  /// Spaces become `mark`; words begin at marks.
  struct Metaspace { std::string mark; Prefix prefix; bool split; };
  using Step = std::variant<Split, Digits, Punctuation, ByteLevel, Metaspace>;

  PreTokenizer();
  template <typename StepType>
  void add(StepType step) {
    steps_.emplace_back(std::in_place_type<StepType>, std::move(step));
  }
  bool byte_level() const;

  /// `at_start`: nothing stands before `text` in the prompt. Result words are raw bytes of the text, whatever
  /// alphabet steps in between worked on.
  Result<Words> run(std::string text, bool at_start) const;

 private:
  Status apply(const Split& step, Words* words, Pattern::Scratch& scratch) const;
  std::vector<Step> steps_;
  Pattern gpt2_;
};

/// Pre-tokenizer, normal form and habits that go with a tokenizer.ggml.pre name.
struct NamedPreTokenizer {
  PreTokenizer steps;
  bool nfc = false;
  bool whole_words_first = false;  // "ignore_merges": a word that is a token is that token
  bool adds_bos = false;           // when the file does not say
};
/// kUnsupported, naming those that are known, for an unknown name.
Result<NamedPreTokenizer> named_pretokenizer(std::string_view name);

}  // namespace slipstream
