// Matching through PCRE2. The translation to its dialect is in pattern_translate.cpp.
#include "engine/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <utility>

namespace slipstream {
namespace {

// A linear pass over the largest prompt (4 MiB) stays below; a quadratic one is cut after about a second.
constexpr uint32_t kMatchLimit = 24'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kJitStackBytes = 1 << 20;
constexpr size_t kMaxExpressionBytes = 16 << 10;

std::string pcre_words(int code) {
  PCRE2_UCHAR words[256];
  if (pcre2_get_error_message(code, words, sizeof(words)) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(words);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* compiled = nullptr;
  bool jit = false;
  std::string expression;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
};

struct Pattern::Scratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;
  State() {
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kDepthLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Pattern::Scratch::Scratch() : state_(std::make_unique<State>()) {}
Pattern::Scratch::~Scratch() = default;

Pattern::Pattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

Result<Pattern> Pattern::compile(std::string_view expression) {
  if (expression.size() > kMaxExpressionBytes)
    return corrupt("pre-tokenizer pattern: " + std::to_string(expression.size()) + " bytes, at most " +
                   std::to_string(kMaxExpressionBytes) + " are accepted");
  SLIP_TRY(const std::string translated, translate_expression(expression));
  auto code = std::make_shared<Code>();
  code->expression = std::string(expression);
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  // Oniguruma's Ruby syntax, which tokenizer files use: ^ and $ are line anchors.
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                 context.get());
  if (code->compiled == nullptr)
    return corrupt("pre-tokenizer pattern \"" + std::string(expression.substr(0, 80)) + "\" does not compile: " +
                   pcre_words(error) + " at offset " + std::to_string(offset) + " of its PCRE2 form");
  // Without executable memory (hardened kernels) PCRE2 interprets: slower, same matches.
  code->jit = pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE) == 0;
  return Pattern(std::move(code));
}

Status Pattern::find_all(std::string_view text, Scratch& scratch, std::vector<Range>* out) const {
  out->clear();
  Scratch::State& state = *scratch.state_;
  // Short texts fit the 32 KiB of machine stack that JIT code uses by itself.
  if (code_->jit && text.size() > 4096 && state.stack == nullptr) {
    state.stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
    if (state.stack != nullptr) pcre2_jit_stack_assign(state.context, nullptr, state.stack);
  }
  size_t at = 0;
  while (at < text.size()) {
    // The caller checked the UTF-8 once; checking at every match would make the loop quadratic.
    const int rc = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, state.data, state.context);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      return invalid_argument("the prompt cannot be split into words: the pre-tokenizer's expression gave up at byte " +
                              std::to_string(at) + " of " + std::to_string(text.size()) + " (" + pcre_words(rc) +
                              "); break up very long runs of one kind of character");
    const size_t* vector = pcre2_get_ovector_pointer(state.data);
    if (vector[1] <= at && vector[0] < at) return internal_error("pre-tokenizer: a match went backwards");
    out->push_back({vector[0], vector[1]});
    at = vector[1];
  }
  return Ok{};
}

}  // namespace slipstream
