// C7 of the reliability goals, second half: whatever tokens a model draws, every server-sent event is valid UTF-8 and
// JSON, and the texts put together are the whole-string decode; streamed or not. SLIP_STREAMS sets how many answers
// (default 1,500).
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/base/utf8.h"
#include "engine/run/engine.h"
#include "engine/run/fake_executor.h"
#include "server/api/openai_format.h"
#include "server/sse_stream.h"
#include "tests/catch.h"
#include "tests/http/stub_model.h"

using namespace slipstream;
using nlohmann::json;

namespace {

/// Bytes of every kind, so that sequences break in every way: leads, continuations, ASCII, quotes, controls, specials.
int32_t wild_token(std::span<const int32_t> history, uint64_t seed, int32_t choice) {
  std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(choice), static_cast<uint32_t>(history.size())};
  std::mt19937 random(words);
  switch (random() % 8) {
    case 0: return static_cast<int32_t>(0xc2 + random() % 0x33);  // a lead byte
    case 1:
    case 2:
    case 3: return static_cast<int32_t>(0x80 + random() % 0x40);  // a continuation
    case 4: return "\"\\/\b\f\n\r\t\x7f\x01</"[random() % 12];
    default: return static_cast<int32_t>(random() % stub::kVocab);
  }
}

class Collected final : public BodySink {
 public:
  bool write(std::string_view bytes) override {
    text += bytes;
    return true;
  }
  std::string text;
};

struct Server {
  Server() {
    EngineLimits limits;
    limits.max_num_seqs = 4;
    limits.max_batched_tokens = 64;
    limits.context_length = 256;
    limits.vocab = stub::kVocab;
    limits.num_blocks = 64;
    limits.max_draft_tokens = 3;
    FakeDevice device;
    device.shape = {limits.max_num_seqs, 1, limits.block_tokens, limits.max_batched_tokens, limits.max_draft_tokens};
    device.blocks = limits.num_blocks;
    device.law = wild_token;
    std::vector<std::unique_ptr<StepExecutor>> ranks;
    ranks.push_back(std::make_unique<FakeExecutor>(std::move(device)));
    engine = std::make_unique<Engine>(limits, std::move(ranks), EngineHooks{});
    services.engine = engine.get();
    services.tokenizer = stub::make_tokenizer();
    services.model.names = {"stub"};
    services.model.context_length = limits.context_length;
    services.model.vocab = stub::kVocab;
    complete(&services);
    engine->start();
  }
  std::unique_ptr<Engine> engine;
  Services services;
};

api::GenerationRequest request_of(uint64_t seed, bool skip_special) {
  api::GenerationRequest call;
  call.seed = static_cast<int64_t>(seed);
  call.sampling.max_tokens = static_cast<int32_t>(1 + seed % 40);
  call.n = seed % 5 == 0 ? 2 : 1;
  call.ignore_eos = true;
  call.skip_special = skip_special;
  call.return_token_ids = true;
  return call;
}

}  // namespace

TEST_CASE("random tokens: every event is valid, and the text is the decode of all tokens") {
  const char* wanted = std::getenv("SLIP_STREAMS");
  const uint64_t streams = wanted == nullptr ? 1500 : static_cast<uint64_t>(std::atoll(wanted));
  Server server;
  const Tokenizer& tokenizer = *server.services.tokenizer;
  int64_t events = 0, repaired = 0, drawn = 0;
  for (uint64_t seed = 1; seed <= streams; ++seed) {
    INFO("seed " << seed);
    const bool skip = seed % 2 == 0;
    const api::Endpoint endpoint = seed % 3 == 0 ? api::kCompletions : api::kChat;
    const api::GenerationRequest call = request_of(seed, skip);
    api::AnswerHead head;
    head.endpoint = endpoint;
    head.id = "id";
    head.model = "stub";
    head.n = call.n;
    head.return_token_ids = true;
    head.tokenizer = server.services.tokenizer;
    auto submitted = api::Generation::submit(server.services, call, {{97, 98}}, "id");
    REQUIRE(std::holds_alternative<std::unique_ptr<api::Generation>>(submitted));
    Collected sink;
    PeerWatch peer;
    api::OpenAiFormat format(std::move(head));
    const auto outcome = stream_generation(*std::get<0>(submitted), format, sink, peer, [] { return 0; },
                                           std::chrono::seconds(15), "rid");
    REQUIRE_FALSE(outcome.failed);
    REQUIRE(is_valid_utf8(sink.text));
    std::vector<std::string> texts(static_cast<size_t>(call.n));
    std::vector<std::vector<int32_t>> ids(static_cast<size_t>(call.n));
    size_t at = 0;
    bool done = false;
    while (at < sink.text.size()) {
      const size_t end = sink.text.find("\n\n", at);
      REQUIRE(end != std::string::npos);
      const std::string event = sink.text.substr(at, end - at);
      at = end + 2;
      REQUIRE(event.starts_with("data: "));
      REQUIRE(event.find_first_of("\r\n") == std::string::npos);
      REQUIRE_FALSE(done);
      if ((done = event == "data: [DONE]")) continue;
      const json chunk = json::parse(event.substr(6), nullptr, false);
      REQUIRE(chunk.is_object());
      for (const json& choice : chunk.at("choices")) {
        const auto index = choice.at("index").get<size_t>();
        const json& text = endpoint == api::kChat ? choice.at("delta").value("content", json()) : choice.at("text");
        if (text.is_string()) texts[index] += text.get<std::string>();
        for (const json& id : choice.value("token_ids", json::array())) ids[index].push_back(id.get<int32_t>());
      }
      ++events;
    }
    REQUIRE(done);
    for (int32_t choice = 0; choice < call.n; ++choice) {
      const auto c = static_cast<size_t>(choice);
      std::vector<int32_t> expected{97, 98};
      for (int32_t i = 0; i < call.sampling.max_tokens; ++i) expected.push_back(wild_token(expected, seed, choice));
      expected.erase(expected.begin(), expected.begin() + 2);
      REQUIRE(ids[c] == expected);
      // the decode of the whole, repaired as a whole, by a decoder that shares nothing with the incremental one
      const std::string raw = tokenizer.decode(expected, skip);
      const std::string whole = json::parse(json(raw).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
      REQUIRE(texts[c] == whole);
      repaired += whole != raw;
      drawn += std::ssize(expected);
    }
  }
  REQUIRE(events > static_cast<int64_t>(streams));
  REQUIRE(repaired > static_cast<int64_t>(streams) / 2);
  REQUIRE(drawn > static_cast<int64_t>(streams) * 10);
}
