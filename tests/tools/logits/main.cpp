// logits: token ids in, logits out, for comparisons with other implementations. Not a product tool.
//
//   slip_logits MODEL --backend cpu --prompts FILE --out FILE [--rows all|last|N]
//
// FILE of prompts: one prompt a line, token ids separated by spaces or commas. Output: raw little-endian float32 rows
// of the whole vocabulary, prompt after prompt; standard output tells the shape as JSON.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/base/log.h"
#include "engine/model/cache_scales.h"
#include "tests/model/model_runner.h"

namespace slipstream::test {
namespace {

std::vector<std::vector<int32_t>> read_prompts(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<int32_t>> prompts;
  for (std::string line; std::getline(file, line);) {
    for (char& c : line)
      if (c == ',') c = ' ';
    std::istringstream words(line);
    std::vector<int32_t> ids;
    for (int32_t id; words >> id;) ids.push_back(id);
    if (!ids.empty()) prompts.push_back(std::move(ids));
  }
  return prompts;
}

int fail(const std::string& text) {
  std::fprintf(stderr, "slip_logits: %s\n", text.c_str());
  return 2;
}

int run(int argc, char** argv) {
  std::string model, prompts_file, out_file, rows = "last", cache = "f32";
  RunnerOptions options;
  int32_t chunk = 0;
  CLI::App app{"Logits of token ids"};
  app.add_option("model", model, "a folder or a .gguf")->required();
  app.add_option("--backend", options.backend)->check(CLI::IsMember({"reference", "cpu"}));
  app.add_option("--isa", options.isa);
  app.add_option("--threads", options.threads);
  app.add_option("--ranks", options.ranks);
  app.add_option("--chunk", chunk, "rows of one prefill step; 0: all");
  app.add_option("--cache-dtype", cache)->check(CLI::IsMember({"f32", "f16", "bf16", "fp8"}));
  app.add_option("--rows", rows, "all, last, or how many last rows of each prompt");
  app.add_option("--prompts", prompts_file)->required()->check(CLI::ExistingFile);
  app.add_option("--out", out_file)->required();
  app.add_flag("--dummy", options.dummy);
  app.add_option("--seed", options.dummy_seed);
  CLI11_PARSE(app, argc, argv);
  log::init("error", "text");

  const auto prompts = read_prompts(prompts_file);
  if (prompts.empty()) return fail("no prompts in " + prompts_file);
  options.max_tokens = 1;
  for (const auto& ids : prompts) options.max_tokens = std::max(options.max_tokens, static_cast<int32_t>(ids.size()));
  if (chunk > 0) options.max_rows = std::min(chunk, options.max_tokens);

  auto checkpoint = Checkpoint::open(model);
  if (!checkpoint.ok()) return fail(checkpoint.error().message);
  auto config = read_model_config(**checkpoint);
  if (!config.ok()) return fail(config.error().message);
  options.cache_dtype = cache_dtype(cache, *config);
  auto runner = ModelRunner::make(**checkpoint, *config, options);
  if (!runner.ok()) return fail(runner.error().message);

  std::ofstream out(out_file, std::ios::binary);
  std::string shape;
  for (const auto& ids : prompts) {
    for (int32_t id : ids)
      if (id < 0 || id >= config->vocab) return fail("token id " + std::to_string(id) + " is outside the vocabulary");
    const auto count = static_cast<int32_t>(ids.size());
    const int32_t take = rows == "all" ? count : rows == "last" ? 1 : std::min(count, std::stoi(rows));
    std::vector<int32_t> wanted;
    for (int32_t p = count - take; p < count; ++p) wanted.push_back(p);
    const std::vector<float> logits = (*runner)->run(ids, wanted, chunk);
    out.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size() * sizeof(float)));
    shape += (shape.empty() ? "" : ", ") + std::to_string(take);
  }
  if (!out.flush()) return fail("cannot write " + out_file);
  std::cout << "{\"vocab\": " << config->vocab << ", \"rows\": [" << shape << "], \"backend\": \"" << options.backend
            << "\", \"resident_bytes\": " << (*runner)->model().resident_bytes() << "}\n";
  return 0;
}

}  // namespace
}  // namespace slipstream::test

int main(int argc, char** argv) { return slipstream::test::run(argc, argv); }
