// Precedence, the environment, files of keys, and what --print-config says about each.
#include "config/load.h"
#include "load_case.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

namespace {
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("the command line wins over the environment, that over YAML, that over the defaults") {
  TemporaryFile file("port: 1001\nhost: 127.0.0.2\nmax-num-seqs: 3\nlog_level: debug\n");
  const Environment env = {{"SLIPSTREAM_PORT", "1002"}, {"SLIPSTREAM_HOST", "127.0.0.3"}};
  const auto c = load_args({"m", "--config", file.path(), "--port", "1003"}, env);
  INFO(error_of(c));
  REQUIRE(c.ok());
  CHECK(c->server.port == 1003);
  CHECK(c->server.host == "127.0.0.3");
  CHECK(c->engine.max_num_seqs == 3);
  CHECK(c->server.log_level == "debug");
  CHECK(c->engine.block_size == 32);
  CHECK(c->source.at("port") == "--port");
  CHECK(c->source.at("host") == "env SLIPSTREAM_HOST");
  CHECK(c->source.at("max-num-seqs") == file.path() + ":3");
  CHECK(c->source.at("log-level") == file.path() + ":4");
  CHECK(c->source.at("block-size") == "default");
  CHECK(c->source.at("model") == "MODEL");
}

TEST_CASE("a map's keys are layered one by one") {
  TemporaryFile file("speculative-config:\n  method: ngram\n  num_speculative_tokens: 4\n");
  const auto c = load_args({"m", "--config", file.path(), "--speculative-config.num-speculative-tokens", "2"});
  REQUIRE(c.ok());
  CHECK(c->engine.speculative.method == "ngram");
  CHECK(c->engine.speculative.num_speculative_tokens == 2);
  CHECK(c->source.at("speculative-config.method") == file.path() + ":2");
}

TEST_CASE("environment names") {
  const auto c = load_args({"m"}, {{"SLIPSTREAM_API_KEY", "a,b"},
                                   {"SLIPSTREAM_CONTEXT_LENGTH", "2048"},
                                   {"SLIPSTREAM_SPECULATIVE_CONFIG__METHOD", "ngram"},
                                   {"SLIPSTREAM_ENABLE_PREFIX_CACHING", "0"},
                                   {"SLIPSTREAM_LOG_LEVEL", ""},
                                   {"SLIPSTREAM_CACHE", "/somewhere"},
                                   {"OTHER", "x"}});
  INFO(error_of(c));
  REQUIRE(c.ok());
  CHECK(c->server.api_keys == std::vector<std::string>{"a", "b"});
  CHECK(c->engine.max_model_len == 2048);
  CHECK(c->engine.speculative.method == "ngram");
  CHECK_FALSE(c->engine.enable_prefix_caching);
  CHECK(c->server.log_level == "info");
  CHECK(c->warnings.empty());
}

TEST_CASE("environment errors") {
  CHECK(error_of(load_args({"m"}, {{"SLIPSTREAM_PORT", "x"}})) ==
        "env SLIPSTREAM_PORT: \"x\" is not a whole number (32k style works)");
  CHECK(has(error_of(load_args({"m"}, {{"SLIPSTREAM_API_KYE", "k"}})), "did you mean SLIPSTREAM_API_KEY?"));
  CHECK(has(error_of(load_args({"m"}, {{"SLIPSTREAM_MAX_MODEL_LEN", "1"}, {"SLIPSTREAM_CTX_SIZE", "2"}})), "conflicts"));
  const auto far = load_args({"m"}, {{"SLIPSTREAM_SOMETHING_ENTIRELY_ELSE", "k"}});
  REQUIRE(far.ok());
  REQUIRE(far->warnings.size() == 1);
  CHECK(has(far->warnings[0], "SLIPSTREAM_SOMETHING_ENTIRELY_ELSE is unknown and ignored"));
}

TEST_CASE("a Kubernetes service called slipstream does not set the port") {
  const auto c = load_args({"m"}, {{"SLIPSTREAM_PORT", "tcp://10.0.0.1:8000"},
                                   {"SLIPSTREAM_SERVICE_HOST", "10.0.0.1"},
                                   {"SLIPSTREAM_SERVICE_PORT_HTTP", "8000"},
                                   {"SLIPSTREAM_PORT_8000_TCP_ADDR", "10.0.0.1"}});
  INFO(error_of(c));
  REQUIRE(c.ok());
  CHECK(c->server.port == 8000);
  CHECK(c->source.at("port") == "default");
  REQUIRE(c->warnings.size() == 1);
  CHECK(has(c->warnings[0], "Kubernetes"));
}

TEST_CASE("a config file that cannot be read") {
  CHECK(error_of(load_args({"--config", "/nonexistent/c.yaml"})) ==
        "config file \"/nonexistent/c.yaml\" cannot be read: No such file or directory");
  CHECK(has(error_of(load_args({"--config", "/"})), "is a folder"));
  TemporaryFile large(std::string((1 << 20) + 1, '#'));
  CHECK(has(error_of(load_args({"--config", large.path()})), "over the limit of 1048576 bytes"));
  TemporaryFile env_file("port: 77\n");
  CHECK(load_args({"m"}, {{"SLIPSTREAM_CONFIG", env_file.path()}})->server.port == 77);
}

TEST_CASE("print-config shows every value and its source, but no key") {
  const auto c = load_args({"m", "--api-key", "hunter2", "--metrics-api-key", "swordfish", "--port", "9"},
                           {{"SLIPSTREAM_THREADS", "2"}});
  REQUIRE(c.ok());
  const std::string table = describe_config(*c, false), json = describe_config(*c, true);
  for (const std::string& text : {table, json}) {
    CHECK(has(text, "max-num-batched-tokens"));
    CHECK(has(text, "env SLIPSTREAM_THREADS"));
    CHECK(has(text, "(1 set)"));
    CHECK_FALSE(text.find("hunter2") != std::string::npos);
    CHECK_FALSE(text.find("swordfish") != std::string::npos);
  }
  CHECK(has(json, "\"value\": 9"));
}
