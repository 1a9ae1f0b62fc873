// One generation request after all text work: token ids and validated numbers. Made by an HTTP thread, moved to the
// engine thread, immutable after submit except for the cancel flag and the output channel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/request/output_channel.h"
#include "kernels/sample.h"

namespace slipstream {

class ConstraintSpec;

struct SamplingParams {
  float temperature = 1;
  float top_p = 1;
  int32_t top_k = 0;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;                     // drawn at admission when the client gave none
  int32_t top_logprobs = -1;             // -1: none
  std::vector<int32_t> stop_ids;         // stop_token_ids and, unless ignore_eos, the model's eos ids
  int32_t max_tokens = 0;                // > 0; prompt + max_tokens <= context
  int32_t min_tokens = 0;
};

struct Request {
  std::string id;                        // "chatcmpl-…", also the log's request id
  std::vector<int32_t> prompt;           // at least one id
  SamplingParams sampling;
  int32_t n = 1;                         // choices; prefilled once
  int32_t priority = 0;                  // lower runs first (vLLM's direction)
  std::string cache_salt;                // prefix cache partition; derived from the API key when not given
  bool speculate = true;                 // per-request switch
  std::shared_ptr<const ConstraintSpec> constraint;  // what each choice may say; null: everything
  std::chrono::steady_clock::time_point arrival{};
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  std::atomic<bool> cancelled{false};    // set by the HTTP side; the engine frees the blocks within two steps
  /// Bit i: the HTTP side has all it wants of choice i (a stop string was found). The engine may end that choice as if
  /// it were cancelled; events of it that still come are ignored.
  std::atomic<uint32_t> stopped_choices{0};
  std::shared_ptr<OutputChannel> output; // never null
};

}  // namespace slipstream
