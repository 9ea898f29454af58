// A program on a host: its links are connected, and it has the state to run. Kept, so that a repeated call has almost
// nothing to prepare.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/execution.hpp"
#include "exec/host/host_lane.hpp"
#include "exec/links.hpp"
#include "exec/state.hpp"

namespace tutti::exec {

/// A replica: the lanes of a program over every width-th window, with links of their own.
class Replica {
 public:
  /// Replica `index` of the program; it runs the rounds index, index + width, …. Connects its links.
  Replica(const Program& program, uint32_t index, uint32_t versions, const Arithmetic& arithmetic, Links& links);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// Gives it the memory for messages, one stage for each of Program::stages.
  void use(std::vector<Stage*> stages) {
    stages_ = std::move(stages);
    state.stages = stages_.data();
  }
  /// Before each call. `scratch`: of this replica.
  void bind(const Binding& binding, unsigned char* scratch, Links& links) {
    state.out = links.outs().data();  // they move when links are added
    state.in = links.ins().data();
    state.bases[0] = moved(static_cast<unsigned char*>(const_cast<void*>(binding.in)), first_bytes_);
    state.bases[1] = moved(static_cast<unsigned char*>(binding.out), first_bytes_);
    state.bases[2] = scratch;
    state.shared[0] = binding.in_region;
    state.shared[1] = binding.out_region;
    state.tag = binding.tag;
    state.arithmetic.scale = binding.scale;
    for (LaneState& lane : lanes) {
      lane.progress = lane.round = 0;
      lane.arrived = 0;
      lane.next = nullptr;
      lane.host->warm = 0;
    }
  }
  std::span<Stage* const> stages() const { return stages_; }

  RankState state;
  std::vector<LaneState> lanes;
  std::vector<uint32_t> outs;  ///< all links that it writes

 private:
  /// A WindowProgram's tables whose link numbers are those of Links.
  struct Connected {
    std::vector<uint32_t> arrivals;
    std::vector<Out> outs;
    Tables tables;
    void connect(const WindowProgram& program, const std::vector<uint32_t>& ins, const std::vector<uint32_t>& outs);
  };

  Connected full_, last_;
  std::vector<HostLane> host_lanes_;
  std::vector<link::Arrival> arrivals_;
  std::vector<const unsigned char*> operands_;
  std::vector<Stage*> stages_;
  uint64_t first_bytes_ = 0;  // of input and output before its first window
};

class HostExecution final : public Execution {
 public:
  HostExecution(Program program, uint32_t versions, const Arithmetic& arithmetic, Links& links);

  /// Makes stages of its own, which need memory: see stages().
  void own_stages(Links& links);
  bool has_memory(uint64_t generation) const { return stages_.empty() || stages_.front()->generation == generation; }
  std::span<OwnedStage* const> stages() const { return stages_; }

  std::vector<std::unique_ptr<Replica>> replicas;  ///< as many as the program is wide
  uint64_t scratch_bytes = 0;                      ///< of one replica, all versions

 private:
  std::deque<OwnedStage> owned_;
  std::vector<OwnedStage*> stages_;
};

}  // namespace tutti::exec
