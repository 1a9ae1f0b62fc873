// The doctor on tiny models of every architecture: nothing to find in healthy ones; with one planted fault it names the
// layer and the op.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/doctor/first_layers.h"
#include "tests/catch.h"
#include "tests/model/doctor_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

enum class Mistake { kRopeStyle, kSwappedHeads, kShortWindow, kNan };

/// Breaks one op behind the weight of one tensor.
class WrongOp final : public ForwardingOps {
 public:
  WrongOp(Ops& inner, std::string after, Mistake mistake) : ForwardingOps(inner), after_(std::move(after)), mistake_(mistake) {}
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override {
    armed_ = w.spec().parts.front().name == after_;
    inner().linear(w, x, bias, out);
    if (armed_ && mistake_ == Mistake::kNan) out[(x.rows - 1) * w.rows() + 3] = NAN;
  }
  void qkv_norm_rope_cache(const QkvParams& params) override {
    QkvParams p = params;
    if (armed_ && mistake_ == Mistake::kRopeStyle)
      p.rope.style = p.rope.style == RopeStyle::kHalfSplit ? RopeStyle::kInterleaved : RopeStyle::kHalfSplit;
    inner().qkv_norm_rope_cache(p);
  }
  void attention(const AttentionParams& params) override {
    AttentionParams p = params;
    std::vector<float> q;
    if (armed_ && mistake_ == Mistake::kSwappedHeads) {
      // every query head asks the other half's key and value heads
      const int64_t width = int64_t{p.heads} * p.head_dim, half = width / 2;
      q.assign(p.q, p.q + (p.step->rows - 1) * p.q_stride + width);
      for (int32_t r = 0; r < p.step->rows; ++r)
        std::swap_ranges(q.begin() + r * p.q_stride, q.begin() + r * p.q_stride + half, q.begin() + r * p.q_stride + half);
      p.q = q.data();
    }
    if (armed_ && mistake_ == Mistake::kShortWindow) p.window = 9;
    inner().attention(p);
  }

 private:
  const std::string after_;
  const Mistake mistake_;
  bool armed_ = false;
};

std::string said(const DoctorReport& report) { return doctor_text(report); }

}  // namespace

TEST_CASE("doctor finds nothing in healthy models of every architecture", "[doctor]") {
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    for (const char* backend : {"cpu", "reference"}) {
      MemoryCheckpoint folder = tiny_safetensors(golden, DType::kBF16);
      const DoctorReport report = examined(folder, options_for(backend));
      INFO(name << "\n" << said(report));
      CHECK(report.ok());
      CHECK(report.verdict == "nothing wrong was found");
      CHECK(report.backend == backend);
      // every family that a forward pass has, the sampler too, on as many rows as the steps have
      for (const char* family : {"embed", "rms_norm", "linear BF16", "qkv_norm_rope_cache", "attention", "swiglu",
                                 "row_linear_add_norm BF16", "row_linear_add_norm", "gather_rows", "sample"}) {
        INFO(family);
        REQUIRE(report.ops.count(family) == 1);
        CHECK(report.ops.at(family).cases >= 4);
      }
      CHECK(report.ops.at("swiglu").cases > 60);
      REQUIRE(report.layers.size() == static_cast<size_t>(report.model_layers) + 1);
      for (const LayerCheck& layer : report.layers) CHECK(layer.error < 0.5 * layer.bound + 1e-12);
    }
  }
}

TEST_CASE("doctor finds nothing in healthy quantised models", "[doctor]") {
  for (const DType dtype : {DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    MemoryCheckpoint folder = tiny_gguf(read_golden("llama-tied"), dtype);
    const DoctorReport report = examined(folder, options_for("cpu"));
    INFO(dtype_info(dtype).name << "\n" << said(report));
    CHECK(report.ok());
    for (const LayerCheck& layer : report.layers) CHECK(layer.error < 0.5 * layer.bound);
  }
}

TEST_CASE("doctor finds nothing in healthy FP8 models", "[doctor]") {
  for (const std::string& name : golden_f8_names()) {
    MemoryCheckpoint folder = tiny_safetensors(read_golden(name));
    const DoctorReport report = examined(folder, options_for("cpu"));
    INFO(name << "\n" << said(report));
    CHECK(report.ok());
    CHECK(report.ops.at("linear F8_E4M3").cases > 100);
    for (const LayerCheck& layer : report.layers) CHECK(layer.error < 0.5 * layer.bound);
  }
}

TEST_CASE("doctor names a weight that one backend has wrong, and its layer", "[doctor]") {
  const Golden golden = read_golden("qwen3");
  for (const int32_t layer : {0, 1})
    for (const float factor : {1.5f, 1.01f}) {
      const std::string tensor = "model.layers." + std::to_string(layer) + ".self_attn.o_proj.weight";
      MemoryCheckpoint folder = tiny_safetensors(golden, DType::kF32);
      DoctorOptions options = options_for("cpu");
      options.fault = [&](Ops& inner) { return std::make_unique<ScaledWeight>(inner, tensor, factor); };
      const DoctorReport report = examined(folder, options);
      INFO(layer << " times " << factor << "\n" << said(report));
      CHECK_FALSE(report.ok());
      REQUIRE_FALSE(report.failing_ops.empty());
      for (const CheckFailure& failure : report.failing_ops) {
        CHECK(failure.op == "row_linear_add_norm");
        CHECK(failure.tensor == tensor);
      }
      CHECK(report.ops.at("row_linear_add_norm F32").failed > 0);
      CHECK(report.first_bad_layer == layer);
      CHECK(report.verdict.find("layer " + std::to_string(layer) + " is the first that differs") == 0);
      CHECK(report.verdict.find("first wrong op: row_linear_add_norm '" + tensor + "' (F32)") != std::string::npos);
    }
}

TEST_CASE("doctor names the op of a wrong kernel: rope style, head order, window, a NaN", "[doctor]") {
  struct Case {
    Mistake mistake;
    const char* model;
    const char* op;
  };
  const Case cases[] = {{Mistake::kRopeStyle, "qwen2-tied", "qkv_norm_rope_cache"},
                        {Mistake::kRopeStyle, "llama-llama3-rope", "qkv_norm_rope_cache"},
                        {Mistake::kSwappedHeads, "qwen3", "attention"},
                        {Mistake::kShortWindow, "llama-tied", "attention"},
                        {Mistake::kNan, "llama-biases", "linear"}};
  for (const Case& c : cases) {
    const std::string tensor = "model.layers.1.self_attn.q_proj.weight";
    MemoryCheckpoint folder = tiny_safetensors(read_golden(c.model), DType::kBF16);
    DoctorOptions options = options_for("cpu");
    options.fault = [&](Ops& inner) { return std::make_unique<WrongOp>(inner, tensor, c.mistake); };
    const DoctorReport report = examined(folder, options);
    INFO(c.model << ", mistake " << static_cast<int>(c.mistake) << "\n" << said(report));
    CHECK_FALSE(report.ok());
    REQUIRE_FALSE(report.failing_ops.empty());
    const CheckFailure& first = report.failing_ops.front();
    CHECK(first.op.starts_with(c.op));
    CHECK(layer_of_tensor(first.tensor.empty() ? first.after : first.tensor) == 1);
    CHECK(report.first_bad_layer == 1);
    CHECK(report.layers[0].ok());
  }
}

TEST_CASE("doctor examines the first layers alone", "[doctor]") {
  MemoryCheckpoint folder = tiny_safetensors(read_golden("qwen2-upper-window"), DType::kBF16);
  DoctorOptions options = options_for("cpu");
  options.layers = 1;
  const DoctorReport report = examined(folder, options);
  INFO(said(report));
  CHECK(report.ok());
  CHECK(report.layers.size() == 2);
  CHECK(said(report).find("1 of 2 layers") != std::string::npos);
}

TEST_CASE("doctor reports what is wrong with a checkpoint", "[doctor]") {
  const Golden golden = read_golden("qwen3");
  const auto verdict_of = [](MemoryCheckpoint& folder) {
    const DoctorReport report = examined(folder, options_for("cpu"));
    CHECK_FALSE(report.ok());
    return report.verdict;
  };
  MemoryCheckpoint missing = tiny_safetensors(golden);
  missing.remove("model.layers.1.mlp.up_proj.weight");
  CHECK(verdict_of(missing).find("checkpoint, loads: tensor 'model.layers.1.mlp.up_proj.weight' is missing") == 0);
  MemoryCheckpoint extra = tiny_safetensors(golden);
  extra.add("model.layers.1.mlp.adapter.weight", {2, 2}, {1, 2, 3, 4});
  CHECK(verdict_of(extra).find("does not use: 'model.layers.1.mlp.adapter.weight'") != std::string::npos);
  MemoryCheckpoint not_finite = tiny_safetensors(golden);
  not_finite.add("model.layers.0.input_layernorm.weight", {golden.config.at("hidden_size").get<int64_t>()},
                 std::vector<float>(golden.config.at("hidden_size").get<size_t>(), INFINITY));
  CHECK(verdict_of(not_finite).find("checkpoint, values: 'model.layers.0.input_layernorm.weight': row 0, column 0 is inf") == 0);
  const auto unreadable = examine(nullptr, "x.gguf: not a GGUF file", options_for("cpu"), [](const std::string&) {});
  REQUIRE(unreadable.ok());
  CHECK(unreadable->verdict == "checkpoint, readable: x.gguf: not a GGUF file");
}

TEST_CASE("the JSON report has the documented shape", "[doctor]") {
  MemoryCheckpoint folder = tiny_safetensors(read_golden("llama-tied"), DType::kBF16);
  DoctorOptions options = options_for("cpu");
  options.fault = [&](Ops& inner) {
    return std::make_unique<WrongOp>(inner, "model.layers.1.self_attn.q_proj.weight", Mistake::kNan);
  };
  const nlohmann::json json = nlohmann::json::parse(doctor_json(examined(folder, options)));
  CHECK(json.at("ok") == false);
  CHECK(json.at("machine").at("backend") == "cpu");
  CHECK(json.at("kernels").size() >= 4);
  CHECK(json.at("first_bad_layer") == 1);
  CHECK(json.at("layers").size() == 3);
  CHECK(json.at("layers").at(2).at("layer") == "logits");
  CHECK(json.at("layers").at(1).at("error") == "nan");
  const auto& failing = json.at("failing_ops").at(0);
  for (const char* key : {"op", "tensor", "format", "after", "row", "column", "got", "want", "error", "bound"}) CHECK(failing.contains(key));
  CHECK(failing.at("got") == "nan");
  for (const auto& row : json.at("ops"))
    for (const char* key : {"family", "cases", "failed", "error", "bound", "ok"}) CHECK(row.contains(key));
  for (const auto& check : json.at("checks")) CHECK(check.at("status").get<std::string>().find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos);
}

TEST_CASE("a tensor's name says its layer", "[doctor]") {
  CHECK(layer_of_tensor("model.layers.12.self_attn.q_proj.weight") == 12);
  CHECK(layer_of_tensor("blk.3.attn_q.weight") == 3);
  CHECK(layer_of_tensor("token_embd.weight") == -1);
  CHECK(layer_of_tensor("model.norm.weight") == -1);
  CHECK(layer_of_tensor("blk.3") == -1);
  CHECK(layer_of_tensor("") == -1);
}
