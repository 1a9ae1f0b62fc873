// Collectives between threads of one process: the CPU backend's tensor parallelism and the tests' second rank.
// Knows addresses and counts; no tensor, format or model.
//
// Each LocalComm is used by its rank's thread; abort() by any. A collective reads its peers' memory between two
// meetings of all ranks, so nothing is copied twice and nothing is allocated.
#pragma once

#include <memory>
#include <vector>

#include "kernels/communicator.h"

namespace slipstream {

/// One communicator per rank of a group of `ranks` threads, which must all take part in every collective. Waiting
/// threads sleep when the group is larger than the number of cores, and spin for a few microseconds first otherwise.
std::vector<std::unique_ptr<Communicator>> make_local_comms(int ranks);

}  // namespace slipstream
