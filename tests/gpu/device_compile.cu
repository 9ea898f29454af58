// Compiles the interpreter, whole, for a device: one block runs one lane of one rank to its end.
#include "device_policies.cuh"

namespace tutti::exec {

template <class T>
__global__ void run_lanes(RankState* rank) {
  const BlockGroup group;
  LaneState& lane = rank->lanes[blockIdx.x];
  for (;;) {
    const Outcome outcome = DeviceInterpreter<T>::try_step(group, *rank, lane);
    if (outcome == Outcome::LaneDone || outcome == Outcome::Fault) return;
  }
}

template __global__ void run_lanes<float>(RankState*);
template __global__ void run_lanes<int64_t>(RankState*);

}  // namespace tutti::exec
