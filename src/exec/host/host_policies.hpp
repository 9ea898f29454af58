// The interpreter's policies for the host, where the group is one thread.
#pragma once

#include <chrono>

#include "exec/host/remote_access.hpp"
#include "exec/interpreter.hpp"
#include "exec/store_choice.hpp"
#include "link/host_memory.hpp"
#include "reduce/fold.hpp"

namespace tutti::exec {

struct HostGroup {
  static bool leader() { return true; }
  static uint32_t thread() { return 0; }
  static uint32_t threads() { return 1; }
  static const unsigned char** operands(const LaneState& lane, const Instruction&) { return lane.operands; }
  static void sync() {}
  static Outcome broadcast(Outcome outcome) { return outcome; }
};

struct HostReduce : InMemory {
  static void copy(const HostGroup&, unsigned char* to, const unsigned char* from, uint64_t bytes) {
    copy_bytes(reinterpret_cast<std::byte*>(to), nullptr, reinterpret_cast<const std::byte*>(from), bytes, false);
  }

  /// How the slot of an instruction is filled.
  struct Filling {
    bool streamed = false;
    StoreChoice* timed = nullptr;
    std::chrono::steady_clock::time_point begin;
  };
  static bool chooses(const Instruction& op) { return op.slot == Slot::Stage && op.bytes >= StoreChoice::kFrom; }
  static Filling begin(const RankState& rank, const Instruction& op) {
    StoreChoice& stores = *rank.stages[op.stage]->stores;
    if (op.arrivals.begin != op.arrivals.end) {  // how long it takes says more of its messages
      return {.streamed = stores.streams()};
    }
    const bool streamed = stores.next(op.bytes);
    if (!stores.timed()) return {.streamed = streamed};
    return {.streamed = streamed, .timed = &stores, .begin = std::chrono::steady_clock::now()};
  }
  static void end(const Instruction& op, const Filling& filling) {
    if (filling.timed != nullptr) filling.timed->took(filling.begin, std::chrono::steady_clock::now(), op.bytes);
  }

  static void run(const HostGroup& group, const Arithmetic& how, const Instruction& op, const Segment& segment,
                  unsigned char* to, unsigned char* slot, const unsigned char* const* operands,
                  const Filling& filling) {
    if (slot == nullptr || !filling.streamed) return run(group, how, op, segment, to, slot, operands);
    // What is streamed is the first destination. Nothing is copied to itself: `to` is none, then.
    const bool in_place = op.sources == 1 && !(how.scale != nullptr && segment.raw >= 0) && to == operands[0];
    run(group, how, op, segment, slot, in_place ? nullptr : to, operands, true);
  }
  /// `past`: store the local copy past the cache even if the instruction is not nontemporal.
  static void run(const HostGroup&, const Arithmetic& how, const Instruction& op, const Segment& segment,
                  unsigned char* to, unsigned char* slot, const unsigned char* const* operands, bool past = false) {
    const bool scale = how.scale != nullptr && segment.raw >= 0;
    auto* dst = reinterpret_cast<std::byte*>(to);
    auto* dst2 = reinterpret_cast<std::byte*>(slot);
    const auto* src = reinterpret_cast<const std::byte* const*>(operands);
    if (op.sources == 1 && !scale) {
      if (dst == src[0]) dst = nullptr;  // in place: already there
      if (dst != nullptr || dst2 != nullptr) copy_bytes(dst, dst2, src[0], segment.bytes, op.nontemporal || past);
      return;
    }
    if (dst == nullptr && dst2 == nullptr) return;
    how.fold({.dst = dst,
              .dst2 = dst2,
              .sources = src,
              .source_count = op.sources,
              .count = segment.bytes / how.element_bytes,
              .shape = op.shape,
              .stream = op.nontemporal || past,
              .round_each = how.round_each,
              .divide_by = op.completes ? how.divide_by : 0,
              .scaled_source = scale ? segment.raw : -1,
              .scale = how.scale});
  }
};

using HostInterpreter = Interpreter<HostGroup, link::HostWire, HostReduce, HostRemoteAccess>;

}  // namespace tutti::exec
