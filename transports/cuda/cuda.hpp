// Links between GPUs: the ring and the payload slots of a link lie in the memory of its reader's GPU, and the writer
// pushes into them; the counter of consumed messages lies with the writer. So each end polls memory of its own GPU.
//
// Threads of a process use each other's memory at its address, processes map it: the answer of a peer's control thread
// brings the descriptor. Neither end waits for the other's user threads. Mapping may wait for all kernels of the
// process, which may wait for other ranks: so all memory is mapped before any kernel runs (meet).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transports/cuda/memory.hpp"
#include "transports/cuda/shared_buffers.hpp"
#include "transports/transport.hpp"

namespace tutti::cuda {

/// What the rank's memory of links is made for.
struct LinkSizes {
  uint64_t arena = 16 << 20;  ///< bytes, without staging memory
  uint64_t message = 0;       ///< bytes of the longest message
  uint64_t lines = 0;         ///< of the longest one that travels by LL; 0: none does
  uint64_t ll128 = 0;         ///< the same for LL128
  uint32_t slots_width = 1;   ///< links in parallel to each peer that have slots; the others have only descriptors
};
/// Equal on all ranks that agree on their number and on TUTTI_MAX_BLOCKS. `width`: links in parallel to each peer.
LinkSizes link_sizes(Rank ranks, uint32_t width);
/// Bytes of staging memory of a rank: TUTTI_CUDA_ARENA, or what suits the GPU's memory; 0 where links lie on the host.
uint64_t staging_for(const Device& device);

class CudaLinks final : public transports::Transport {
 public:
  CudaLinks(transports::Wireup& wireup, const Device& device, const LinkSizes& sizes, uint64_t staging);
  ~CudaLinks() override;

  const char* name() const override { return "cuda"; }
  bool is_engine() const override { return false; }
  transports::Reach probe(Rank peer) const override;
  transports::Capabilities capabilities(Rank peer, const transports::Word& word) const override;
  uint64_t longest_message() const override;
  /// This rank's staging memory; its links state where in it a message is.
  unsigned char* staging() const;
  uint64_t staging_bytes() const;
  /// What a peer on this host lets this rank's GPU read, after meet(): the first entries of a table of kRegions.
  std::array<link::MappedRegion, link::kFirstUserRegion> regions_of(Rank peer);
  /// The ids of the devices that this process sees and to which this one's stores of 128 bytes stay whole: not over
  /// PCIe, so none if links have their memory on the host.
  std::vector<std::string> ll128_capable_peers() const;
  /// To these peers, by rank, stores of 128 bytes stay whole. Until this is said, to none.
  void set_ll128_peers(std::vector<bool> peers) { whole_ = std::move(peers); }
  /// Maps the memory of all peers on this host. Connecting a link afterwards makes no call of the driver. Throws
  /// Error(PeerFailed | Timeout | Unsupported | ProtocolError).
  void meet(Deadline deadline);
  /// The ranks of this host, after meet().
  std::vector<SharedBuffers::Peer> peers() const;
  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override;

 private:
  struct Service;
  struct Request;
  struct Answer;
  enum class Part : uint32_t { Ring, Counter, Memory };
  unsigned char* part_of(Rank peer, uint32_t link_lane, Part part, Deadline deadline);
  unsigned char* ask_part(Rank peer, uint32_t link_lane, Part part, Deadline deadline);
  LinkArena& neighbour(Rank peer);
  PeerMemory& mapped(Rank peer, Deadline deadline);
  Fd ask(Rank peer, const Request& request, Answer& answer, Deadline deadline);
  bool is_thread(Rank peer) const;

  transports::Wireup& wireup_;
  const Device& device_;
  const LinkSizes sizes_;
  std::shared_ptr<Service> service_;                       // with this rank's memory
  std::map<Rank, std::shared_ptr<LinkArena>> neighbours_;  // memory of this process's ranks
  std::vector<bool> whole_;                                // peers to whom stores of 128 bytes stay whole; empty: none
  std::map<Rank, std::shared_ptr<PeerMemory>> mapped_;     // memory of other processes' ranks
};

}  // namespace tutti::cuda
