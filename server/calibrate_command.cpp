// See calibrate_command.h.
#include "server/calibrate_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "engine/base/log.h"
#include "engine/base/text_file.h"
#include "engine/model/drafter_profile.h"
#include "engine/run/backend.h"
#include "engine/spec/calibration_setup.h"
#include "server/drafter_prompts.h"
#include "server/progress_line.h"

namespace slipstream {
namespace {

constexpr int kFits = 0, kNothingFits = 1, kBad = 2;

constexpr const char* kAbout =
    "Which conventions was this DFlash drafter trained with? Lets the target write text, tries what the drafter's config does not "
    "say, checks what it says, and writes a profile for --speculative-config.profile.";

struct Wanted {
  std::string target, drafter, out, prompts;
  BackendOptions backend;
  CalibrationSize size;
  bool json = false;
};

void add_flags(CLI::App& app, Wanted* wanted) {
  app.add_option("target", wanted->target, "The target: folder, .gguf file or hub id in the local cache")->required();
  app.add_option("drafter", wanted->drafter, "The drafter: the same, with or without a config.json")->required();
  app.add_option("--out", wanted->out, "Write the profile here; it names the drafter's weights and the target's shape");
  app.add_option("--prompts", wanted->prompts, "A file with one prompt a line, in place of the built-in ones");
  app.add_option("--texts", wanted->size.texts, "Texts that the target writes")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--tokens", wanted->size.tokens, "Tokens of each; windows longer than a text cannot be told apart")
      ->check(CLI::Range(8, 1 << 16))
      ->capture_default_str();
  app.add_option("--anchors", wanted->size.anchors, "Places in each text where the drafter drafts")->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("--backend", wanted->backend.backend, "cpu or reference")->check(CLI::IsMember({"cpu", "reference"}));
  app.add_option("--threads", wanted->backend.threads, "Of the CPU backend; 0: all cores")->check(CLI::Range(0, 1024));
  app.add_flag("--json", wanted->json, "Print one JSON document instead of the tables");
}

Result<std::vector<std::string>> prompt_texts(const std::string& file) {
  if (file.empty()) {
    const auto own = drafter_prompt_texts();
    return std::vector<std::string>(own.begin(), own.end());
  }
  SLIP_TRY(const std::string text, read_text_file(file, "prompts", 1 << 20));
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

struct Outcome {
  Calibration result;
  DrafterFacts facts;
  DrafterProfile profile;
};

Result<Outcome> calibrate(const Wanted& wanted, ProgressLine& line) {
  line.show("opening the checkpoints");
  SLIP_TRY(const std::string target_path, resolve_model_path(wanted.target));
  SLIP_TRY(const std::string drafter_path, resolve_model_path(wanted.drafter));
  SLIP_TRY(const auto target, Checkpoint::open(target_path));
  SLIP_TRY(const auto drafter, Checkpoint::open(drafter_path));
  SLIP_TRY(const ModelConfig config, read_model_config(*target));
  SLIP_TRY(const auto tokenizer, Tokenizer::load(*target));
  const auto chat_template = ChatTemplate::load(*target, *tokenizer);
  const std::vector<int32_t> masks = mask_candidates(*tokenizer, config.vocab);
  Outcome out;
  SLIP_TRY(out.facts, infer_drafter_config(*drafter, config, masks.empty() ? -1 : masks.front()));

  CalibrationSize size = wanted.size;
  constexpr int32_t kPromptTokens = 256;
  SLIP_TRY(const std::vector<std::string> texts, prompt_texts(wanted.prompts));
  const auto prompts = drafter_prompts(*tokenizer, chat_template.ok() ? chat_template->get() : nullptr, texts, config.vocab,
                                       kPromptTokens, size.texts);
  if (prompts.empty())
    return invalid_argument("no prompt of " + (wanted.prompts.empty() ? std::string("the built-in ones") : wanted.prompts) +
                                " has 1 to " + std::to_string(kPromptTokens) + " tokens; give others with --prompts",
                            "prompts");
  size.texts = static_cast<int32_t>(prompts.size());
  size.prompt_tokens = 0;
  for (const auto& prompt : prompts) size.prompt_tokens = std::max(size.prompt_tokens, static_cast<int32_t>(prompt.size()));

  line.show("loading weights");
  SLIP_TRY(const auto ops, make_backend(wanted.backend));
  SLIP_TRY(const auto setup, CalibrationSetup::load(*target, config, *drafter, out.facts, *ops, size));
  const std::vector<int32_t> stops = config.eos_ids.empty() ? tokenizer->eos_ids() : config.eos_ids;
  setup->write(prompts, stops, [&line](int32_t done, int32_t all) {
    line.show("the target writes: " + std::to_string(done) + " of " + std::to_string(all) + " tokens of each text");
  });
  constexpr int32_t kLeastTokens = 32;
  if (setup->text().tokens() < kLeastTokens)
    return invalid_argument("the target wrote " + std::to_string(setup->text().tokens()) + " tokens, too few to measure a drafter on; give other "
                            "prompts, or more --texts", "texts");
  out.result = setup->calibrate(out.facts, masks, [&line](const std::string& text) { line.show(text); });
  out.profile = {drafter_fingerprint(*drafter), config.layers, config.hidden, config.vocab, out.result.fits, out.result.length,
                 out.result.verdict, out.result.config, calibration_json(out.result, out.facts)};
  return out;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return io_error("out: cannot write " + path);
  return Ok{};
}

}  // namespace

int run_calibrate_command(const std::vector<std::string>& args) {
  Wanted wanted;
  wanted.backend.backend = "cpu";
  CLI::App app{kAbout, "slipstream calibrate-drafter"};
  add_flags(app, &wanted);
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 wants the words
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kFits;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "slipstream calibrate-drafter: %s; --help lists the flags\n", error.what());
    return kBad;
  }
  log::init("error", "text");
  ProgressLine line;
  const auto outcome = calibrate(wanted, line);
  line.clear();
  Status written = Ok{};
  if (outcome.ok() && !wanted.out.empty()) written = write_file(wanted.out, profile_json(outcome->profile));
  if (!outcome.ok() || !written.ok()) {
    const Error& error = outcome.ok() ? written.error() : outcome.error();
    std::fprintf(stderr, "slipstream calibrate-drafter: %s\n", error.message.c_str());
    return kBad;
  }
  std::printf("%s", wanted.json ? profile_json(outcome->profile).c_str() : calibration_text(outcome->result, outcome->facts).c_str());
  return outcome->result.fits ? kFits : kNothingFits;
}

}  // namespace slipstream
