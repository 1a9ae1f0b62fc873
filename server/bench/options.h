// Options of `slipstream bench`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/bench/forward.h"

namespace slipstream::bench {

struct Options {
  std::string base_url = "http://127.0.0.1:8000";
  std::string api = "chat";           // chat or completions
  std::string model;                  // "": the first of /v1/models
  std::string api_key;                // "": OPENAI_API_KEY, when set
  std::vector<int> concurrency = {1, 4, 8};
  int requests = 0;                   // per concurrency; 0: four times as many
  int warmup = 1;                     // requests before each measurement, not counted
  int input_tokens = 0;               // words of a random prompt; 0: the built-in short prompts
  std::string prompt;                 // one text for all, instead
  int long_prompt_tokens = 0;         // words of the prompts that are read beside the streams; 0: none
  int max_tokens = 64;
  bool ignore_eos = false;
  double temperature = 0;
  uint64_t seed = 1;                  // of the prompts
  int timeout_s = 300;                // of one request
  bool json = false;
  ForwardOptions forward;             // --forward MODEL: no server, one forward by rows
};

/// What parsing came to: run, or stop with this exit code and text.
struct Parsed {
  Options options;
  bool stop = false;
  int exit_code = 0;
  std::string text;  // for stdout when exit_code is 0, else stderr
};

Parsed parse_options(const std::vector<std::string>& args);

}  // namespace slipstream::bench
