// See stub_model.h.
#include "tests/http/stub_model.h"

#include <pthread.h>

#include <thread>

#include "engine/base/text_file.h"
#include "engine/run/fake_executor.h"
#include "engine/spec/ngram_drafter.h"
#include "server/memory_plan.h"
#include "tests/http/script_model.h"

namespace slipstream::stub {
namespace {

constexpr const char* kSpecialTexts[] = {"<|end|>", "<|user|>", "<|assistant|>", "<|system|>"};

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int i = 0; i < 256; ++i) bytes_.push_back(std::string(1, static_cast<char>(i)));
    for (const char* text : kSpecialTexts) bytes_.push_back(text);
  }
  int32_t vocab_size() const override { return kVocab; }
  Result<std::vector<int32_t>> encode(std::string_view text, bool parse_special) const override {
    std::vector<int32_t> out;
    for (size_t i = 0; i < text.size();) {
      bool special = false;
      for (int32_t s = 0; parse_special && s < 4 && !special; ++s) {
        if (text.substr(i).starts_with(kSpecialTexts[s])) {
          out.push_back(kEnd + s);
          i += std::string_view(kSpecialTexts[s]).size();
          special = true;
        }
      }
      if (!special) out.push_back(static_cast<unsigned char>(text[i++]));
    }
    return out;
  }
  Result<std::vector<int32_t>> encode(std::span<const PromptSegment> segments) const override {
    std::vector<int32_t> out;
    for (const PromptSegment& segment : segments) {
      SLIP_TRY(auto ids, encode(segment.text, segment.trusted));
      out.insert(out.end(), ids.begin(), ids.end());
    }
    return out;
  }
  std::string_view token_bytes(int32_t id) const override {
    return id >= 0 && id < kVocab ? std::string_view(bytes_[id]) : std::string_view();
  }
  bool is_special(int32_t id) const override { return id >= kEnd; }
  int32_t token_id(std::string_view text) const override {
    for (int32_t id = 0; id < kVocab; ++id)
      if (bytes_[id] == text) return id;
    return -1;
  }
  int32_t bos_id() const override { return -1; }
  std::vector<int32_t> eos_ids() const override { return {kEnd}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string out;
    for (const int32_t id : ids)
      if (!(skip_special && is_special(id))) out += token_bytes(id);
    return out;
  }
  std::string description() const override { return "bytes, 260 tokens"; }

 private:
  std::vector<std::string> bytes_;
};

class PlainTemplate final : public ChatTemplate {
 public:
  Result<std::vector<PromptSegment>> render(const RenderInput& input) const override {
    std::vector<PromptSegment> out;
    for (const auto& message : input.messages) {
      const auto role = message["role"].get<std::string>();
      if (message["content"].is_string() && message["content"] == "raise")
        return invalid_argument("chat template: raised on purpose");
      out.push_back({role == "user" ? "<|user|>" : role == "assistant" ? "<|assistant|>" : "<|system|>", true});
      out.push_back({message["content"].is_string() ? message["content"].get<std::string>() : "", false});
      out.push_back({"<|end|>", true});
    }
    if (input.extra.contains("suffix")) out.push_back({input.extra["suffix"].get<std::string>(), false});
    if (input.add_generation_prompt) out.push_back({"<|assistant|>", true});
    return out;
  }
  const std::string& source() const override { return source_; }

 private:
  std::string source_ = "stub";
};

/// Behind an assistant mark the last user text is repeated and ended; a plain prompt is followed by letters, which
/// depend on seed, choice and position.
int32_t echo_law(std::span<const int32_t> history, uint64_t seed, int32_t choice) {
  int64_t assistant = -1, user = -1;
  for (int64_t i = static_cast<int64_t>(history.size()) - 1; i >= 0 && user < 0; --i) {
    if (assistant < 0 && history[i] == kAssistant) assistant = i;
    if (assistant >= 0 && history[i] == kUser) user = i;
  }
  if (user < 0) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(choice) * 0xbf58476d1ce4e5b9ull +
                     history.size() * 0x94d049bb133111ebull;
    state ^= state >> 31;
    state *= 0xd6e8feb86659fd93ull;
    return static_cast<int32_t>('a' + (state >> 40) % 26);
  }
  int64_t length = 0;
  while (history[user + 1 + length] != kEnd) ++length;
  const int64_t at = static_cast<int64_t>(history.size()) - assistant - 1;
  return at < length ? history[user + 1 + at] : kEnd;
}

Status take_script_model(const StubOptions& options, const Config& config, Services* services) {
  services->tokenizer = make_script_tokenizer(options.specials);
  std::string source = "{% for message in messages %}{{ message.content }}{% endfor %}";
  if (!config.engine.chat_template.empty()) {
    SLIP_TRY(source, read_text_file(config.engine.chat_template, "chat-template", 1 << 20));
  }
  SLIP_TRY(services->chat_template, ChatTemplate::compile(source, "", ""));
  services->model.vocab = services->tokenizer->vocab_size();
  services->model.eos_ids = services->tokenizer->eos_ids();
  return Ok{};
}

/// As where the limit on threads is reached: std::thread throws what the system says.
void start_thread_without_room() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 47);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  std::thread([] {}).join();
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer() { return std::make_shared<ByteTokenizer>(); }
std::shared_ptr<const ChatTemplate> make_template() { return std::make_shared<PlainTemplate>(); }

Loader make_loader(const StubOptions& options) {
  return [options](const Config& config, EngineHooks hooks,
                   const std::function<void(std::string)>& progress) -> Result<std::unique_ptr<Loaded>> {
    progress("pretending to load");
    std::this_thread::sleep_for(options.load_delay);
    if (options.no_thread) start_thread_without_room();
    auto out = std::make_unique<Loaded>();
    out->services.tokenizer = make_tokenizer();
    if (options.chat_template) out->services.chat_template = make_template();
    ModelInfo& model = out->services.model;
    model.names = config.server.served_model_names.empty() ? std::vector<std::string>{"stub"}
                                                           : config.server.served_model_names;
    model.architecture = "stub";
    model.format = "none";
    model.context_length = options.context;
    model.vocab = kVocab;
    model.eos_ids = {kEnd};
    if (options.script) SLIP_RETURN_IF_ERROR(take_script_model(options, config, &out->services));

    EngineLimits limits;
    const BatchSize batch = cpu_batch(config.engine);
    limits.max_num_seqs = batch.max_num_seqs;
    limits.max_batched_tokens = batch.max_num_batched_tokens;
    limits.max_queued_requests = config.engine.max_num_queued_reqs;
    limits.max_queued_tokens = config.engine.max_num_queued_tokens;
    limits.context_length = options.context;
    limits.vocab = model.vocab;
    limits.block_tokens = config.engine.block_size;
    const int32_t per_slot = (options.context + limits.block_tokens - 1) / limits.block_tokens;
    limits.num_blocks = options.blocks > 0 ? options.blocks : per_slot * limits.max_num_seqs + 8;
    limits.watchdog = std::chrono::seconds(config.engine.watchdog_s);
    limits.max_draft_tokens = options.drafts;

    FakeDevice device;
    device.shape.slots = limits.max_num_seqs;
    device.shape.block_tokens = limits.block_tokens;
    device.shape.max_rows = limits.max_batched_tokens;
    device.shape.max_draft_tokens = limits.max_draft_tokens;
    if (limits.max_draft_tokens > 0) device.drafter = std::make_shared<NgramDrafter>(1, 3);
    device.blocks = limits.num_blocks;
    device.law = options.script ? script_law(out->services.tokenizer) : TokenLaw(echo_law);
    device.step_delay = options.step_delay;
    device.faults = std::make_shared<FaultSchedule>();
    if (options.nan_row > 0) device.faults->fire_at("nan_row", options.nan_row);
    if (options.device_error > 0) device.faults->fire_at("device_error", options.device_error);
    std::vector<std::unique_ptr<StepExecutor>> ranks;
    ranks.push_back(std::make_unique<FakeExecutor>(std::move(device)));
    out->engine = std::make_unique<Engine>(limits, std::move(ranks), std::move(hooks));
    return out;
  };
}

}  // namespace slipstream::stub
