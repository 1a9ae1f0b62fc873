#include "server/api/request_schema.h"

#include "config/limits.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::api;

namespace {

constexpr int32_t kVocab = 1000;

Result<GenerationRequest> read(const std::string& text, Endpoint endpoint = kChat, GenerationDefaults defaults = {}) {
  auto body = parse_body(text);
  if (!body.ok()) return body.error();
  SchemaContext context;
  context.vocab = kVocab;
  context.defaults = defaults;
  return read_generation(*body, endpoint, context);
}

std::string chat_with(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"x"}])" + (more.empty() ? "" : "," + more) + "}";
}

std::string param_of(const Result<GenerationRequest>& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().param;
}

}  // namespace

TEST_CASE("the request wins over generation_config, which wins over neutral") {
  GenerationDefaults d;
  d.temperature = 0.25f;
  d.top_p = 0.5f;
  d.top_k = 7;
  auto neutral = read(chat_with(""));
  REQUIRE(neutral.ok());
  CHECK(neutral->sampling.temperature == 1.0f);
  CHECK(neutral->sampling.top_k == 0);
  auto defaulted = read(chat_with(""), kChat, d);
  CHECK(defaulted->sampling.temperature == 0.25f);
  CHECK(defaulted->sampling.top_p == 0.5f);
  CHECK(defaulted->sampling.top_k == 7);
  auto given = read(chat_with(R"("temperature":0,"top_p":1,"top_k":-1)"), kChat, d);
  CHECK(given->sampling.temperature == 0.0f);
  CHECK(given->sampling.top_p == 1.0f);
  CHECK(given->sampling.top_k == 0);
}

TEST_CASE("aliases and their winners") {
  CHECK(read(chat_with(R"("max_tokens":5,"max_completion_tokens":7)"))->sampling.max_tokens == 7);
  CHECK(read(chat_with(R"("repeat_penalty":2)"))->sampling.repetition_penalty == 2.0f);
  CHECK(read(chat_with(R"("repeat_penalty":2,"repetition_penalty":3)"))->sampling.repetition_penalty == 3.0f);
  CHECK(read(chat_with(R"("min_new_tokens":2)"))->sampling.min_tokens == 2);
  const auto above = read(chat_with(R"("min_new_tokens":9,"max_completion_tokens":7)"));
  CHECK(param_of(above) == "min_new_tokens");
  CHECK(above.error().message == "min_new_tokens 9 is above max_completion_tokens 7");
}

TEST_CASE("prompts times n is bounded") {
  const auto fan = [](int prompts, int n) {
    std::string list;
    for (int i = 0; i < prompts; ++i) list += i == 0 ? "\"a\"" : ",\"a\"";
    return read("{\"prompt\":[" + list + "],\"n\":" + std::to_string(n) + "}", kCompletions);
  };
  CHECK(fan(64, 1).ok());
  CHECK(fan(4, 16).ok());
  CHECK(param_of(fan(5, 16)) == "n");
  CHECK(param_of(fan(64, 2)) == "n");
}

TEST_CASE("output over all choices is bounded") {
  const auto tokens = [](const std::string& more, int64_t choices, int64_t room) {
    auto request = read(chat_with(more));
    REQUIRE(request.ok());
    return output_tokens_per_choice(*request, choices, room);
  };
  CHECK(*tokens(R"("max_tokens":65536)", 16, 100) == 65536);
  CHECK(*tokens("", 1, 1000) == 1000);
  CHECK(*tokens("", 64, 1 << 20) == 16384);
  CHECK(*tokens(R"("logprobs":true,"top_logprobs":3)", 64, 1 << 20) == 16384);
  CHECK(*tokens(R"("logprobs":true,"top_logprobs":7)", 64, 1 << 20) == 8192);
  const auto refused = [&](const std::string& more, int64_t choices, const std::string& param, const std::string& limit) {
    const auto result = tokens(more, choices, 1 << 20);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
    CHECK(result.error().param == param);
    INFO(result.error().message);
    CHECK(result.error().message.find("the limit is " + limit + " a request") != std::string::npos);
  };
  refused(R"("max_tokens":65537)", 16, "max_tokens", "1048576");
  refused(R"("min_tokens":16385)", 64, "min_tokens", "1048576");
  refused(R"("max_completion_tokens":65537)", 16, "max_completion_tokens", "1048576");
  refused(R"("max_tokens":5,"max_completion_tokens":65537)", 16, "max_completion_tokens", "1048576");
  refused(R"("min_new_tokens":16385)", 64, "min_new_tokens", "1048576");
  refused(R"("min_new_tokens":2,"min_tokens":16385)", 64, "min_tokens", "1048576");
  refused(R"("max_tokens":8193,"logprobs":true,"top_logprobs":7)", 64, "max_tokens", "524288");
  refused(R"("max_tokens":16777216)", 64, "max_tokens", "1048576");
}

TEST_CASE("a request id is short and plain under both names") {
  for (const std::string name : {"request_id", "rid"}) {
    CHECK(read(chat_with("\"" + name + "\":\"" + std::string(128, 'a') + "\"")).ok());
    CHECK(read(chat_with("\"" + name + "\":\"A-b_c.d:9\"")).ok());
    for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"), std::string("a\\r\\nb"), std::string("ü")})
      CHECK(param_of(read(chat_with("\"" + name + "\":\"" + bad + "\""))) == name);
  }
}

TEST_CASE("a field of the other endpoint is unknown here, whatever its value") {
  int checked = 0;
  for (const Parameter& p : parameters())
    for (const Endpoint endpoint : {kChat, kCompletions}) {
      if (find_parameter(p.name, endpoint) != nullptr) continue;
      for (const char* value : {"true", "\"x\"", "1.5", "1", "-1", "99999999999", "{}", "[]", "[{}]", "null"}) {
        const std::string more = "\"max_tokens\":3,\"" + std::string(p.name) + "\":" + value;
        INFO(more);
        const auto request = read(endpoint == kChat ? chat_with(more) : R"({"prompt":"y",)" + more + "}", endpoint);
        REQUIRE(request.ok());
        CHECK(request->sampling.max_tokens == 3);
        ++checked;
      }
    }
  CHECK(checked > 100);
}

TEST_CASE("every bounded parameter is refused just outside its bounds and taken on them") {
  int checked = 0;
  for (const Parameter& p : parameters()) {
    if (p.treatment != Treatment::kUsed || (p.min == 0 && p.max == 0) || p.name == "seed") continue;
    for (const Endpoint endpoint : {kChat, kCompletions}) {
      if (!(p.endpoints & endpoint)) continue;
      const auto with = [&](const std::string& value) {
        std::string more = "\"" + std::string(p.name) + "\":" + value;
        if (p.name == "top_logprobs") more += ",\"logprobs\":true";
        return read(endpoint == kChat ? chat_with(more) : R"({"prompt":"x",)" + more + "}", endpoint);
      };
      const double step = p.type == Type::kInt ? 1 : 0.0001;
      const auto text = [&](double v) { return p.type == Type::kInt ? std::to_string(static_cast<int64_t>(v)) : std::to_string(v); };
      INFO(p.name);
      CHECK(param_of(with(text(p.min - step))) == p.name);
      CHECK(param_of(with(text(p.max + step))) == p.name);
      CHECK(with(text(p.max)).ok());
      CHECK(with(text(p.min)).ok() == !p.min_excluded);
      for (const char* bad : {"\"1\"", "[1]", "{}", "true", "1e300", "-1e300", "9223372036854775808"})
        CHECK(param_of(with(bad)) == p.name);
      CHECK(with("null").ok());
      ++checked;
    }
  }
  CHECK(checked > 25);
}

TEST_CASE("seeds are any 64-bit integer") {
  CHECK(*read(chat_with(R"("seed":-9223372036854775808)"))->seed == INT64_MIN);
  CHECK(*read(chat_with(R"("seed":9223372036854775807)"))->seed == INT64_MAX);
  CHECK(param_of(read(chat_with(R"("seed":9223372036854775808)"))) == "seed");
  CHECK(param_of(read(chat_with(R"("seed":1.5)"))) == "seed");
  CHECK_FALSE(read(chat_with(""))->seed.has_value());
}

TEST_CASE("token ids are bounded by the logits width") {
  CHECK(read(chat_with(R"("stop_token_ids":[0,999])"))->sampling.stop_ids == std::vector<int32_t>{0, 999});
  CHECK(param_of(read(chat_with(R"("stop_token_ids":[0,1000])"))) == "stop_token_ids.1");
  CHECK(param_of(read(chat_with(R"("logit_bias":{"1000":1})"))) == "logit_bias");
  for (const char* key : {"01", "00", "+1", "-0", " 1", "1 ", "1.0", "0x1", ""})
    CHECK(param_of(read(chat_with("\"logit_bias\":{\"1\":1,\"" + std::string(key) + "\":2}"))) == "logit_bias");
  CHECK(param_of(read(R"({"prompt":[1,-1]})", kCompletions)) == "prompt.1");
  CHECK(param_of(read(R"({"prompt":[[1],[1000]]})", kCompletions)) == "prompt.1.0");
}

TEST_CASE("reasoning_effort and kwargs reach the template") {
  auto r = read(chat_with(R"("reasoning_effort":"none","chat_template_kwargs":{"k":[1]})"));
  REQUIRE(r.ok());
  CHECK(r->template_extra["enable_thinking"] == false);
  CHECK(r->template_extra["reasoning_effort"] == "none");
  CHECK(r->template_extra["k"] == Json::array({1}));
  CHECK(param_of(read(chat_with(R"("chat_template_kwargs":{"bos_token":"x"})"))) == "chat_template_kwargs.bos_token");
}

TEST_CASE("unknown fields are reported, known ones are not") {
  auto body = parse_body(chat_with(R"("mystery":1,"user":"u")"));
  std::vector<std::string> seen;
  SchemaContext context;
  context.vocab = kVocab;
  context.unknown_field = [&](std::string_view name) { seen.emplace_back(name); };
  REQUIRE(read_generation(*body, kChat, context).ok());
  CHECK(seen == std::vector<std::string>{"mystery"});
}

TEST_CASE("the table names each parameter once per endpoint") {
  size_t rows = 0;
  for (const Endpoint endpoint : {kBoth, kResponses, kMessages}) {
    rows += parameters_of(endpoint).size();
    for (const Parameter& p : parameters_of(endpoint)) {
      int same = 0;
      for (const Parameter& q : parameters_of(endpoint)) same += p.name == q.name && (p.endpoints & q.endpoints);
      INFO(p.name);
      CHECK(same == 1);
      CHECK((p.endpoints & ~endpoint) == 0);
      CHECK_FALSE(p.note.empty());
    }
  }
  CHECK(Json::parse(parameter_table_json()).size() == rows);
}
