#include "server/bench/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>

namespace slipstream::bench {

Parsed parse_options(const std::vector<std::string>& args) {
  Parsed out;
  Options& o = out.options;
  CLI::App app{"Measures an OpenAI-compatible server: time to first token, per token, throughput.", "slipstream bench"};
  app.add_option("url,--base-url", o.base_url, "Server, with or without /v1; http only")->capture_default_str();
  app.add_option("--api", o.api, "chat or completions")->check(CLI::IsMember({"chat", "completions"}))->capture_default_str();
  app.add_option("--model", o.model, "Model to ask for; default: the first of /v1/models");
  app.add_option("--api-key", o.api_key, "Key to send; default: OPENAI_API_KEY");
  app.add_option("--concurrency", o.concurrency, "Streams at once; several numbers are measured in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--requests", o.requests, "Requests of each measurement; 0: four for each stream")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "Requests sent before each measurement and not counted")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--input-tokens", o.input_tokens, "Random prompt of this many words; 0: short built-in prompts")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--prompt", o.prompt, "One prompt for all requests (a prefix cache will know it)");
  app.add_option("--long-prompt-tokens", o.long_prompt_tokens,
                 "Beside the streams, send random prompts of this many words one after another (one token out) and show "
                 "the streams' gaps meanwhile; 0: none")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--max-tokens", o.max_tokens, "Tokens of each answer")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_eos, "Ask the server to go on to --max-tokens");
  app.add_option("--temperature", o.temperature, "Sampling temperature")->check(CLI::Range(0.0, 2.0))->capture_default_str();
  app.add_option("--seed", o.seed, "Of the random prompts")->capture_default_str();
  app.add_option("--timeout", o.timeout_s, "Seconds that one request may take")->check(CLI::Range(1, 86400))->capture_default_str();
  app.add_option("--forward", o.forward.model, "No server: load MODEL here and time one forward pass by rows");
  app.add_option("--threads", o.forward.threads, "With --forward: threads; 0: all cores")->check(CLI::Range(0, 1024));
  app.add_option("--backend", o.forward.backend, "With --forward: cpu, cuda or reference")
      ->check(CLI::IsMember({"cpu", "cuda", "reference"}))
      ->capture_default_str();
  app.add_option("--cuda-feature-level", o.forward.cuda_feature_level,
                 "With --forward --backend cuda: hold the GPU to the kernels of sm80, sm86, sm89 or sm120")
      ->check(CLI::IsMember({"sm80", "sm86", "sm89", "sm120"}));
  app.add_option("--rows", o.forward.rows, "With --forward: rows with logits, each measured")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("--context", o.forward.context, "With --forward: tokens in the cache before them")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  app.add_flag("--json", o.json, "Print one JSON object instead of the table");
  // CLI11 wants the words in reverse.
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream good, bad;
    out.stop = true;
    out.exit_code = app.exit(error, good, bad) == 0 ? 0 : 2;
    out.text = out.exit_code == 0 ? good.str() : bad.str();
    return out;
  }
  o.forward.json = o.json;
  if (o.api_key.empty()) {
    if (const char* key = std::getenv("OPENAI_API_KEY")) o.api_key = key;
  }
  return out;
}

}  // namespace slipstream::bench
