// A program as it lies in a GPU's memory: its tables, and the state of its lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/gpu/lanes.hpp"
#include "exec/links.hpp"
#include "exec/program.hpp"

namespace tutti::exec::gpu {

/// Memory of a rank that its peers read.
struct Staging {
  unsigned char* base = nullptr;
  uint64_t bytes = 0;
};

/// What an image points to beyond itself.
struct Surroundings {
  unsigned char* workspace = nullptr;  ///< scratch, and stages whose messages are pushed: nothing in it outlives a call
  Staging staging;                     ///< the other stages, in the same way
  bool own_tables = false;             ///< each replica has its own: the kernel writes to them (exec/gpu/transfers.hpp)
};

/// The number of each of a replica's links.
struct ReplicaLinks {
  std::vector<uint32_t> outs, ins;
};
/// Connects the links of all replicas; those to and from peers that are `single` of the first one only, as no other
/// uses them. Throws what connecting throws.
std::vector<ReplicaLinks> connect_links(
    const Program& program, Links& links, const std::function<bool(Rank)>& single = [](Rank) { return false; });

/// Bytes of workspace.
uint64_t workspace_of(const Program& program);
/// Bytes of staging memory.
uint64_t staging_of(const Program& program);

/// LanesCall::straight.
bool runs_straight(const Program& program);

struct Image {
  std::vector<unsigned char> bytes;
  Items where;                       ///< in the GPU's memory
  LaneState* progress = nullptr;     ///< LanesCall::progress
  uint32_t items = 0;                ///< the lanes of all replicas
  const uint32_t* firsts = nullptr;  ///< TransfersCall::firsts, of a program by shape
};
/// The image for address `base`. Its size depends on the program alone.
Image make_image(const Program& program, const std::vector<ReplicaLinks>& links, const Arithmetic& arithmetic,
                 const Surroundings& around, unsigned char* base);

}  // namespace tutti::exec::gpu
