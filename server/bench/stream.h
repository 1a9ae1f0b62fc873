// One streamed answer: server-sent events in, times of its pieces and its usage out. No socket, so that it is tested
// with text and given times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "server/bench/measure.h"

namespace slipstream::bench {

class AnswerStream {
 public:
  explicit AnswerStream(bool chat) : chat_(chat) {}

  /// Bytes of the body that arrived at `now_ms` (from the request's start).
  void add(std::string_view bytes, double now_ms);

  /// After the body's end at `now_ms`: the sample, or what was wrong with the stream.
  Result<Sample> finish(double now_ms) const;

 private:
  void event(std::string_view data, double now_ms);

  bool chat_;
  std::string pending_;
  std::vector<double> stamps_ms_;
  bool done_ = false;
  std::string error_;
  std::string finish_reason_;
  int64_t completion_tokens_ = -1, prompt_tokens_ = -1;
};

/// The body of one request.
std::string request_body(const std::string& model, bool chat, const std::string& prompt, int max_tokens,
                         double temperature, bool ignore_eos);

/// The acceptance length that a /v1/info body says is made up; 0: none.
double synthetic_length_of(const std::string& body);
/// The id of the first model in a /v1/models body.
Result<std::string> first_model(const std::string& body);

/// The message of an error body, or its first bytes.
std::string error_text(const std::string& body);

}  // namespace slipstream::bench
