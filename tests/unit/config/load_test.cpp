// The command line: spellings, aliases, refusals, conflicts, bounds, cross-field checks.
#include "config/load.h"
#include "load_case.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

namespace {

Config good(std::vector<std::string> args) {
  auto loaded = load_args(std::move(args));
  INFO(error_of(loaded));
  REQUIRE(loaded.ok());
  return *loaded;
}

std::string bad(std::vector<std::string> args) {
  auto loaded = load_args(std::move(args));
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find('\n') == std::string::npos);
  return loaded.error().message;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("vLLM's spelling, with dashes, underscores and an equals sign") {
  const Config c = good({"m.gguf", "--max-model-len", "32k", "--max_num_seqs=8", "--port", "0", "-tp", "2",
                         "--served-model-name", "a", "b", "--no-enable-prefix-caching", "--enforce-eager"});
  CHECK(c.engine.model == "m.gguf");
  CHECK(c.engine.max_model_len == 32000);
  CHECK(c.engine.max_num_seqs == 8);
  CHECK(c.server.port == 0);
  CHECK(c.engine.tensor_parallel_size == 2);
  CHECK(c.server.served_model_names == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(c.engine.enable_prefix_caching);
  CHECK(c.engine.enforce_eager);
  REQUIRE(c.warnings.size() == 1);
  CHECK(has(c.warnings[0], "enforce-eager (--enforce-eager) has no effect without a GPU"));
}

TEST_CASE("the same settings in SGLang's, llama-server's and TensorRT-LLM's words") {
  const Config sglang = good({"--model-path", "m", "--context-length", "4096", "--max-running-requests", "4",
                              "--chunked-prefill-size", "256", "--disable-radix-cache", "--tp-size", "2",
                              "--max-queued-requests", "9", "--random-seed", "7", "--disable-cuda-graph",
                              "--sampling-defaults", "openai", "--speculative-algorithm", "NGRAM",
                              "--speculative-num-draft-tokens", "5"});
  CHECK(sglang.engine.model == "m");
  CHECK(sglang.engine.max_model_len == 4096);
  CHECK(sglang.engine.max_num_seqs == 4);
  CHECK(sglang.engine.max_num_batched_tokens == 256);
  CHECK_FALSE(sglang.engine.enable_prefix_caching);
  CHECK(sglang.engine.tensor_parallel_size == 2);
  CHECK(sglang.engine.max_num_queued_reqs == 9);
  CHECK(sglang.engine.seed == 7);
  CHECK(sglang.engine.enforce_eager);
  CHECK(sglang.engine.generation_config == "vllm");
  CHECK(sglang.engine.speculative.method == "ngram");
  CHECK(sglang.engine.speculative.num_speculative_tokens == 4);  // SGLang counts the anchor

  const Config llama = good({"-m", "m.gguf", "-c", "8192", "-np", "4", "-ub", "128", "-t", "2", "-a", "name", "-ctk",
                             "f16", "-ctv", "f16", "--chat-template-kwargs", "{\"enable_thinking\":false}",
                             "--log-jsonl", "--draft-max", "3", "--spec-type", "ngram-simple"});
  CHECK(llama.engine.model == "m.gguf");
  CHECK(llama.engine.max_model_len == 8192);
  CHECK(llama.engine.max_num_seqs == 4);
  CHECK(llama.engine.max_num_batched_tokens == 128);
  CHECK(llama.engine.threads == 2);
  CHECK(llama.server.served_model_names == std::vector<std::string>{"name"});
  CHECK(llama.engine.kv_cache_dtype == "f16");
  CHECK(good({"m", "--kv-cache-dtype", "fp8_e4m3"}).engine.kv_cache_dtype == "fp8");
  CHECK(good({"m", "--kv-cache-dtype", "fp16"}).engine.kv_cache_dtype == "f16");
  CHECK(llama.engine.default_chat_template_kwargs == "{\"enable_thinking\":false}");
  CHECK(llama.server.log_format == "json");
  CHECK(llama.engine.speculative.method == "ngram");

  const Config trt = good({"m", "--max_seq_len", "2048", "--max_batch_size", "3", "--max_num_tokens", "64",
                           "--tp_size", "1", "--free_gpu_memory_fraction", "0.5"});
  CHECK(trt.engine.max_model_len == 2048);
  CHECK(trt.engine.max_num_seqs == 3);
  CHECK(trt.engine.max_num_batched_tokens == 64);
  CHECK(trt.engine.gpu_memory_utilization == 0.5);
  REQUIRE(trt.warnings.size() == 1);
  CHECK(has(trt.warnings[0], "--kv-cache-memory-bytes"));
}

TEST_CASE("a list takes one word before MODEL and all words after it") {
  const Config before = good({"--served-model-name", "a", "MODEL"});
  CHECK(before.engine.model == "MODEL");
  CHECK(before.server.served_model_names == std::vector<std::string>{"a"});
  const Config repeated = good({"MODEL", "--api-key", "k1", "--port", "1", "--api-key", "k2"});
  CHECK(repeated.server.api_keys == std::vector<std::string>{"k1", "k2"});
  CHECK(good({"M", "--allowed-origins", "[\"https://a\", \"https://b\"]"}).server.allowed_origins ==
        std::vector<std::string>{"https://a", "https://b"});
}

TEST_CASE("unknown flags name the nearest known one") {
  CHECK(bad({"m", "--max-modle-len", "1"}) ==
        "--max-modle-len: unknown setting; did you mean --max-model-len? (known ones: slipstream serve --help)");
  CHECK(has(bad({"m", "--prot", "1"}), "did you mean --port?"));
  CHECK(has(bad({"m", "--speculative-config.metod", "ngram"}), "did you mean --speculative-config.method?"));
  CHECK_FALSE(has(bad({"m", "--qqqqqqqqqqqqqqqqqqqqqqq", "1"}), "did you mean"));
}

TEST_CASE("flags that do nothing here give one warning line") {
  const Config c = good({"m", "--trust-remote-code", "--swap-space", "4", "-ngl", "99", "--dtype", "auto", "--port", "81"});
  REQUIRE(c.warnings.size() == 4);
  CHECK(c.warnings[0] == "--trust-remote-code has no effect: no code from a model's folder is ever run");
  CHECK(has(c.warnings[2], "-ngl has no effect"));
  CHECK(c.server.port == 81);  // the value of an ineffective flag is not taken for MODEL
}

TEST_CASE("features that are not served are refused by name with the alternative") {
  CHECK(bad({"m", "--enable-lora"}) == "--enable-lora: LoRA adapters are not served; merge the adapter into the model");
  CHECK(has(bad({"m", "--ssl-certfile", "x.pem"}), "proxy"));
  CHECK(has(bad({"m", "--data-parallel-size", "2"}), "gateway"));
  CHECK(has(bad({"m", "--quantization", "awq"}), "\"awq\" is not served; use BF16"));
  CHECK(has(bad({"m", "--kv-cache-dtype", "fp8_e5m2"}), "use fp8"));
  CHECK(has(bad({"m", "--tool-server", "x"}), "tools run at the client"));
  CHECK(has(bad({"m", "--speculative-config", "{\"method\":\"medusa\",\"model\":\"d\"}"}), "use dflash or ngram"));
  CHECK(has(bad({"m", "--backend", "rocm"}), "auto, cuda, cpu"));
  CHECK(has(bad({"-hf", "org/model"}), "nothing is downloaded"));
  CHECK(load_args({"m", "--enable-lora"}).error().code == ErrorCode::kUnsupported);
  // What is served anyway is no reason to refuse.
  CHECK(good({"m", "--data-parallel-size", "1", "--no-enable-lora", "-pp", "1"}).warnings.empty());
}

TEST_CASE("two spellings of one setting must agree") {
  CHECK(good({"m", "--max-model-len", "4096", "-c", "4096"}).engine.max_model_len == 4096);
  CHECK(good({"m", "--max-model-len", "4K", "-c", "4096"}).engine.max_model_len == 4096);
  CHECK(bad({"m", "--max-model-len", "4096", "-c", "2048"}) ==
        "-c: conflicts with --max-model-len, both set max-model-len; keep one");
  CHECK(bad({"m", "--port", "1", "--port", "2"}) == "--port: given twice with different values; keep one");
  CHECK(has(bad({"m", "--enable-prefix-caching", "--disable-radix-cache"}), "conflicts"));
  CHECK(has(bad({"a", "--model", "b"}), "conflicts"));
  CHECK(has(bad({"a", "b"}), "MODEL is already \"a\""));
  CHECK(has(bad({"--config", "a", "--config", "b"}), "twice"));
}

TEST_CASE("values out of range or of the wrong kind name the value and the bound") {
  CHECK(bad({"m", "--port", "65536"}) == "--port: \"65536\" is out of range: 0 to 65535");
  CHECK(bad({"m", "--port", "-1"}) == "--port: \"-1\" is out of range: 0 to 65535");
  CHECK(has(bad({"m", "--port", "http"}), "\"http\" is not a whole number"));
  CHECK(has(bad({"m", "--port", "99999999999999999999"}), "64 bits"));
  CHECK(has(bad({"m", "--gpu-memory-utilization", "1.5"}), "0.01 to 1"));
  CHECK(has(bad({"m", "--gpu-memory-utilization", "nan"}), "is not a number"));
  CHECK(has(bad({"m", "--log-level", "loud"}), "trace, debug, info, warn, error"));
  CHECK(has(bad({"m", "--seed", "-1"}), "out of range"));
  CHECK(bad({"m", "--port"}) == "--port needs a value: N");
  CHECK(bad({"m", "--port", "--host", "x"}) == "--port needs a value: N");
  CHECK(has(bad({"m", "--enforce-eager=maybe"}), "neither true nor false"));
  CHECK(good({"m", "--max-model-len", "auto"}).engine.max_model_len == 0);
  CHECK(good({"m", "--max-model-len", "-1"}).engine.max_model_len == 0);
  CHECK(good({"m", "--log-level", "warning"}).server.log_level == "warn");
}

TEST_CASE("speculative-config as JSON and dotted") {
  const Config json = good({"m", "--speculative-config", "{\"method\":\"ngram\",\"num_speculative_tokens\":4}"});
  CHECK(json.engine.speculative.method == "ngram");
  CHECK(json.engine.speculative.num_speculative_tokens == 4);
  const Config dotted = good({"m", "--speculative-config.method=ngram", "--speculative_config.num_speculative_tokens", "4"});
  CHECK(dotted.engine.speculative.method == "ngram");
  CHECK(dotted.engine.speculative.num_speculative_tokens == 4);
  CHECK(has(bad({"m", "--speculative-config", "{\"method\":"}), "not valid JSON"));
  CHECK(has(bad({"m", "--speculative-config", "[1]"}), "JSON object"));
  CHECK(has(bad({"m", "--speculative-config", "{\"num_spec_tokens\":4}"}), "unknown key \"num_spec_tokens\""));
  CHECK(has(bad({"m", "--speculative-config", "{\"method\":null}"}), "plain value"));
  CHECK(has(bad({"m", "--speculative-config", "{\"num_speculative_tokens\":4}"}), "no method"));
}

TEST_CASE("template variables as JSON and dotted") {
  CHECK(good({"m", "--default-chat-template-kwargs.enable_thinking", "false"}).engine.default_chat_template_kwargs ==
        "{\"enable_thinking\":false}");
  CHECK(good({"m", "--default-chat-template-kwargs.a", "1", "--default-chat-template-kwargs.b", "text"})
            .engine.default_chat_template_kwargs == "{\"a\":1,\"b\":\"text\"}");
  CHECK(has(bad({"m", "--default-chat-template-kwargs", "[]"}), "not a JSON object"));
}

TEST_CASE("settings that contradict each other are refused with both named") {
  CHECK(has(bad({"m", "--port", "8001"}), "port and ops-port are both 8001"));
  CHECK(good({"m", "--port", "8001", "--ops-port", "0"}).server.port == 8001);
  CHECK(has(bad({"m", "--max-streams", "2000"}), "max-connections 1024 is below max-streams 2000"));
  CHECK(has(bad({"m", "--block-size", "48"}), "multiple of 32"));
  CHECK(has(bad({"m", "--max-num-batched-tokens", "8", "--max-num-seqs", "16"}), "below max-num-seqs 16"));
  CHECK(good({"m", "--max-num-batched-tokens", "8"}).engine.max_num_batched_tokens == 8);  // the sequences then follow
  CHECK(has(bad({"m", "--metrics-prefix", "1 bad"}), "not a name"));
  CHECK(has(bad({"m", "--served-model-name", "a", "a"}), "twice"));
  CHECK(has(bad({"m", "--allowed-origins", "example.org"}), "no origin"));
  CHECK(has(bad({"m", "--speculative-config", "{\"method\":\"ngram\",\"prompt_lookup_min\":5}"}), "above prompt-lookup-max 4"));
}

TEST_CASE("a public address without a key is worth a warning") {
  const Config open = good({"m", "--host", "0.0.0.0"});
  REQUIRE(open.warnings.size() == 1);
  CHECK(has(open.warnings[0], "--api-key-file"));
  CHECK(good({"m", "--host", "0.0.0.0", "--api-key", "k"}).warnings.empty());
  CHECK(good({"m", "--host", "0.0.0.0", "--api-key-file", "keys"}).warnings.empty());
}

TEST_CASE("a setting without effect on the backend is said, wherever it came from") {
  CHECK(good({"m"}).warnings.empty());
  CHECK(good({"m", "--no-enforce-eager"}).warnings.empty());
  CHECK(good({"m", "--enforce-eager", "--backend", "cuda"}).warnings.empty());
  for (const char* spelling : {"--enforce-eager", "--disable-cuda-graph"}) {
    const Config config = good({"m", spelling});
    REQUIRE(config.warnings.size() == 1);
    CHECK(has(config.warnings[0], "enforce-eager (--"));
    CHECK(has(config.warnings[0], "has no effect without a GPU: the CPU backends always launch ops one by one"));
    CHECK(has(describe_config(config, false), "has no effect"));
  }
  CHECK(good({"m", "--deterministic", "--backend", "cuda"}).engine.deterministic);
  CHECK(good({"m", "--deterministic", "--backend", "cuda"}).warnings.empty());
  CHECK(!good({"m", "--no-deterministic"}).engine.deterministic);
  for (const char* spelling : {"--deterministic", "--enable-deterministic-inference"}) {
    const Config config = good({"m", spelling});
    CHECK(config.engine.deterministic);
    REQUIRE(config.warnings.size() == 1);
    CHECK(has(config.warnings[0], "deterministic (--"));
    CHECK(has(config.warnings[0], "changes nothing without a GPU: the CPU backends always are"));
  }
}

TEST_CASE("serve needs a model, check-config does not") {
  CHECK(has(error_of(load({}, {}, Need::kModel)), "no model"));
  CHECK(load({}, {}, Need::kNothing).ok());
}
