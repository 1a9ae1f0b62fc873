// See doctor_command.h.
#include "server/doctor_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "engine/base/log.h"
#include "engine/doctor/doctor.h"
#include "kernels/cpu/thread_pool.h"
#include "server/progress_line.h"

namespace slipstream {
namespace {

constexpr int kGood = 0, kCheckFailed = 1, kBad = 2;

constexpr const char* kAbout =
    "Why does this model answer garbage? Checks the files, the text, every op and every layer against the reference.";

struct Wanted {
  DoctorOptions options;
  std::string load_format = "auto", cache = "auto";
  bool json = false;
};

void add_flags(CLI::App& app, Wanted* wanted) {
  DoctorOptions& o = wanted->options;
  app.add_option("model", o.model, "Folder, .gguf file or hub id in the local cache")->required();
  app.add_option("--backend", o.backend.backend, "What is examined: auto (the GPU where there is one), cuda, cpu or reference")
      ->check(CLI::IsMember({"auto", "cuda", "cpu", "reference"}))
      ->capture_default_str();
  app.add_option("--load-format", wanted->load_format, "auto reads the files; dummy makes random weights of the config's shape")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of dummy weights")->capture_default_str();
  app.add_option("--layers", o.layers, "Examine the first N layers alone, as a model of its own; 0: all")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--rows", o.rows, "Tokens of each compared forward pass; the reference takes seconds for each billion weights of them")
      ->check(CLI::Range(DoctorOptions::kMinRows, DoctorOptions::kMaxRows))
      ->capture_default_str();
  app.add_option("--prompt", o.prompt, "Text whose tokens are run; default: a built-in one");
  app.add_option("--kv-cache-dtype", wanted->cache, "auto (bf16, or fp8 where the checkpoint has a kv_cache_scheme), f32, f16, bf16 or fp8")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "fp8"}))
      ->capture_default_str();
  app.add_option("--threads", o.backend.threads, "Of the CPU backend and of the reference; 0: all cores")->check(CLI::Range(0, 1024));
  app.add_option("--cpu-isa", o.backend.cpu_isa, "Hold the CPU kernels to scalar, avx2 or avx512vnni")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512vnni"}));
  app.add_option("--cuda-feature-level", o.backend.cuda_feature_level, "With --backend cuda: hold the GPU to sm80, sm86, sm89 or sm120")
      ->check(CLI::IsMember({"sm80", "sm86", "sm89", "sm120"}));
  app.add_flag("--deterministic", o.backend.deterministic, "With a GPU: its row-exact kernels");
  app.add_flag("--json", wanted->json, "Print one JSON document instead of the tables");
}

}  // namespace

int run_doctor_command(const std::vector<std::string>& args) {
  Wanted wanted;
  CLI::App app{kAbout, "slipstream doctor"};
  add_flags(app, &wanted);
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 wants the words
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kGood;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "slipstream doctor: %s; --help lists the flags\n", error.what());
    return kBad;
  }
  log::init("error", "text");
  DoctorOptions& options = wanted.options;
  options.dummy = wanted.load_format == "dummy";
  options.kv_cache_dtype = wanted.cache;
  options.reference_threads = options.backend.threads > 0 ? options.backend.threads : available_cores();
  ProgressLine line;
  const auto report = run_doctor(options, [&line](const std::string& text) { line.show(text); });
  line.clear();
  if (!report.ok()) {
    std::fprintf(stderr, "slipstream doctor: %s\n", report.error().message.c_str());
    return kBad;
  }
  std::printf("%s", wanted.json ? (doctor_json(*report) + "\n").c_str() : doctor_text(*report).c_str());
  return report->ok() ? kGood : kCheckFailed;
}

}  // namespace slipstream
