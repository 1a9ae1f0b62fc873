#include "engine/sample/all_of.h"

#include <algorithm>

#include "kernels/check.h"

namespace slipstream {
namespace {

class Choice final : public TokenConstraint {
 public:
  explicit Choice(std::vector<std::unique_ptr<TokenConstraint>> parts) : parts_(std::move(parts)) {}

  bool narrow(std::span<uint32_t> mask) override {
    bool narrowed = false;
    for (const auto& part : parts_) narrowed = part->narrow(mask) || narrowed;
    return narrowed;
  }
  void accept(int32_t token) override {
    for (const auto& part : parts_) part->accept(token);
  }
  void rollback(int32_t tokens) override {
    for (const auto& part : parts_) part->rollback(tokens);
  }
  /// The longest of them: where one is certain, the others can only agree or allow nothing.
  void forced(int32_t limit, std::vector<int32_t>* tokens) override {
    const size_t before = tokens->size();
    for (const auto& part : parts_) {
      std::vector<int32_t> own;
      part->forced(limit, &own);
      if (own.size() <= tokens->size() - before) continue;
      tokens->resize(before);
      tokens->insert(tokens->end(), own.begin(), own.end());
    }
  }
  bool ended() const override {
    return std::ranges::any_of(parts_, [](const auto& part) { return part->ended(); });
  }

 private:
  const std::vector<std::unique_ptr<TokenConstraint>> parts_;
};

}  // namespace

AllOf::AllOf(std::vector<std::shared_ptr<const ConstraintSpec>> parts) : parts_(std::move(parts)) {
  CHECK(std::ranges::none_of(parts_, [](const auto& part) { return part == nullptr; }), "a constraint is missing");
}

std::unique_ptr<TokenConstraint> AllOf::start() const {
  std::vector<std::unique_ptr<TokenConstraint>> parts;
  for (const auto& part : parts_) parts.push_back(part->start());
  return std::make_unique<Choice>(std::move(parts));
}

std::shared_ptr<const ConstraintSpec> all_of(std::vector<std::shared_ptr<const ConstraintSpec>> parts) {
  std::erase(parts, nullptr);
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_shared<const AllOf>(std::move(parts));
}

}  // namespace slipstream
