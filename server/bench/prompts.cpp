#include "server/bench/prompts.h"

#include <array>
#include <random>
#include <string_view>

namespace slipstream::bench {
namespace {

constexpr std::array<std::string_view, 8> kQuestions = {
    "Explain in a few sentences why leaves change colour in autumn.",
    "Write a Python function that reverses the words of a sentence.",
    "List five things to check before a long bicycle ride.",
    "Tell a short story about a lighthouse keeper and a storm.",
    "Say 'thank you for the letter' in French, Spanish and German.",
    "What is the difference between weather and climate?",
    "Give three tips for learning to cook at home.",
    "Describe how a sewing machine makes a stitch.",
};

constexpr std::array<std::string_view, 64> kWords = {
    "the",   "of",    "and",   "to",    "in",    "is",    "that",  "for",   "it",    "as",    "was",   "with",  "be",
    "by",    "on",    "not",   "he",    "this",  "are",   "or",    "his",   "from",  "at",    "which", "but",   "have",
    "an",    "had",   "they",  "you",   "were",  "their", "one",   "all",   "we",    "can",   "her",   "has",   "there",
    "been",  "if",    "more",  "when",  "will",  "would", "who",   "so",    "no",    "water", "house", "time",  "work",
    "year",  "light", "world", "hand",  "part",  "place", "week",  "point", "road",  "river", "money", "story"};

}  // namespace

std::string prompt_text(int64_t index, int words, uint64_t seed) {
  const std::string number = "(" + std::to_string(seed) + "." + std::to_string(index) + ") ";
  if (words <= 0) return number + std::string(kQuestions[static_cast<size_t>(index) % kQuestions.size()]);
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(index));
  std::string out = number;
  for (int i = 0; i < words; ++i) {
    out += kWords[random() % kWords.size()];
    out += ' ';
  }
  out.pop_back();
  return out;
}

}  // namespace slipstream::bench
