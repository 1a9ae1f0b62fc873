// load: what `slipstream serve` does with a model until it is ready, many times in one process. Reads one path a line,
// loads it, and where that works runs one short request; prints one JSON line for each. Not a product tool.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/base/log.h"
#include "server/load_model.h"

namespace slipstream {
namespace {

constexpr int32_t kAnswerTokens = 3;

Config small_config(const std::string& path) {
  Config config;
  config.engine.model = path;
  config.engine.threads = 1;
  config.engine.max_num_seqs = 1;
  config.engine.max_num_batched_tokens = 16;
  config.engine.kv_cache_memory_bytes = 4 << 20;
  return config;
}

/// How the request ended: "length", "stop", "error: …" or "refused: …".
std::string answer(Loaded& loaded) {
  auto request = std::make_shared<Request>();
  request->prompt = {1, 2, 3};
  request->sampling.max_tokens = kAnswerTokens;
  request->sampling.temperature = 0;
  request->output = std::make_shared<OutputChannel>(16);
  loaded.engine->start();
  if (const Status status = loaded.engine->submit(request); !status.ok()) return "refused: " + status.error().message;
  for (int i = 0; i < 16; ++i) {
    const auto event = request->output->pop(std::chrono::seconds(20));
    if (!event) return "nothing within 20 s";
    switch (event->finish) {
      case FinishReason::kNone: break;
      case FinishReason::kLength: return "length";
      case FinishReason::kStop: return "stop";
      default: return "error: " + event->error;
    }
  }
  return "no end";
}

nlohmann::json judge(const std::string& path) {
  nlohmann::json out{{"path", path}};
  const auto progress = [](const std::string&) {};
  auto loaded = load_served_model(small_config(path), {}, progress);
  if (!loaded.ok()) {
    out["error"] = loaded.error().message;
    return out;
  }
  out["answer"] = answer(**loaded);
  return out;
}

}  // namespace
}  // namespace slipstream

int main() {
  using namespace slipstream;
  log::init("error", "text");
  for (std::string path; std::getline(std::cin, path);) {
    nlohmann::json out;
    try {
      out = judge(path);
    } catch (const std::exception& error) {  // as run_server's loading thread
      out = {{"path", path}, {"error", std::string("loading failed: ") + error.what()}, {"exception", true}};
    }
    std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
}
