// A model without weights for black-box tests of the edge: a byte tokenizer, a chat template written in C++, and a
// token law that echoes the last user message. Behind the real engine with a FakeExecutor.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "server/serve.h"

namespace slipstream::stub {

struct StubOptions {
  std::chrono::microseconds step_delay{0};
  int32_t context = 2048;
  int32_t blocks = 0;              // 0: enough for every slot
  int32_t drafts = 0;              // of an n-gram drafter; 0: none
  int32_t nan_row = -1;            // the n-th drawn row is not finite; -1: none
  int32_t device_error = -1;       // the n-th commit fails; -1: none
  std::chrono::milliseconds load_delay{0};
  bool chat_template = true;
  bool script = false;             // the model of script_model.h, with --chat-template or a template that only joins contents
  std::vector<std::string> specials;  // its special tokens
  bool no_thread = false;          // loading starts a thread whose stack has no room
};

// ids 0..255 are bytes; then
inline constexpr int32_t kEnd = 256;        // <|end|>
inline constexpr int32_t kUser = 257;       // <|user|>
inline constexpr int32_t kAssistant = 258;  // <|assistant|>
inline constexpr int32_t kSystem = 259;     // <|system|>
inline constexpr int32_t kVocab = 260;

std::shared_ptr<const Tokenizer> make_tokenizer();
std::shared_ptr<const ChatTemplate> make_template();
Loader make_loader(const StubOptions& options);

}  // namespace slipstream::stub
