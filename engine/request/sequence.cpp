#include "engine/request/sequence.h"

#include <array>
#include <tuple>

#include "kernels/check.h"

namespace slipstream {
namespace {

// Row: from, column: to, in the order of the enum.
constexpr std::array<std::array<bool, 5>, 5> kAllowed{{
    // waiting  prefilling running preempted finished
    {{false, true, false, false, true}},   // waiting
    {{false, false, true, true, true}},    // prefilling
    {{false, false, false, true, true}},   // running
    {{false, true, false, false, true}},   // preempted
    {{false, false, false, false, false}}, // finished
}};

}  // namespace

bool move_allowed(SequenceState from, SequenceState to) {
  return kAllowed[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

const char* state_name(SequenceState state) {
  static constexpr std::array<const char*, 5> kNames{"waiting", "prefilling", "running", "preempted", "finished"};
  return kNames[static_cast<size_t>(state)];
}

Sequence::Sequence(std::shared_ptr<Request> from, int32_t choice_index, uint64_t arrival_ticket)
    : request(std::move(from)),
      choice(choice_index),
      arrival(arrival_ticket),
      prompt_tokens(checked_cast<int32_t>(request->prompt.size())),
      tokens(request->prompt),
      salt(request->cache_salt) {}

void Sequence::move(SequenceState to) {
  CHECK(move_allowed(state_, to), std::string("sequence move ") + state_name(state_) + " -> " + state_name(to));
  state_ = to;
}

bool Sequence::before(const Sequence& other) const {
  return std::tie(request->priority, arrival, choice) <
         std::tie(other.request->priority, other.arrival, other.choice);
}

}  // namespace slipstream
