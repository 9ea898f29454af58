#include "transports/cuda/cuda.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "link/ll.hpp"
#include "topo/constants.hpp"
#include "transports/cuda/neighbours.hpp"
#include "transports/cuda/retired.hpp"
#include "transports/pod_text.hpp"

namespace tutti::cuda {
namespace {

using transports::Capabilities;
using transports::pack;
using transports::printable_reply;
using transports::Reach;
using transports::unpack;
using transports::Wireup;
using transports::Word;

constexpr const char* kService = "cuda";
constexpr uint64_t kMagic = 0x33616475'63697474;  // "ttcuda3"
constexpr uint32_t kLinksToAPeer = 3;             // lanes of an algorithm in which all ranks are peers, and transfers
constexpr uint64_t kShortest = 4096, kLongest = 128 << 10;  // bytes of a message
constexpr uint64_t kLinesArena = 4 << 20;                   // what links in lines take together, about
constexpr uint64_t kShortestInLines = 512;
constexpr uint64_t kRingBytes = link::kCapacity * link::kLine;

/// Bytes of a slot of links in lines.
uint64_t line_slot(const LinkSizes& sizes, uint32_t link_lane) {
  return link_lane < link::kLl128Lanes ? link::line_slot_bytes(sizes.lines) : link::ll128_slot_bytes(sizes.ll128);
}

/// Links of replicas beyond those have no slots.
bool has_slots(const LinkSizes& sizes, uint32_t link_lane) {
  return link_lane % link::kTransferLinkLane / link::kThreadLinkLanes < sizes.slots_width;
}

/// Of a link: lines, or a ring and its slots.
uint64_t ring_bytes(const LinkSizes& sizes, uint32_t link_lane) {
  if (link_lane >= link::kLlLanes) return link::kLlSlots * line_slot(sizes, link_lane);
  return kRingBytes + (has_slots(sizes, link_lane) ? link::kPushSlots * sizes.message : 0);
}

std::shared_ptr<LinkArena> make_arena(const Device& device, const LinkSizes& sizes, uint64_t staging) {
  const auto bytes = [sizes](uint32_t link_lane) { return ring_bytes(sizes, link_lane); };
  return {new LinkArena(device, sizes.arena, staging, bytes),
          [](LinkArena* arena) { Retired::instance().put(arena->device(), std::shared_ptr<LinkArena>(arena)); }};
}

link::Form form_of(uint32_t link_lane) { return static_cast<link::Form>(link_lane / link::kLlLanes); }

}  // namespace

LinkSizes link_sizes(Rank ranks, uint32_t width) {
  LinkSizes sizes;
  sizes.slots_width = std::min(width, static_cast<uint32_t>(machine_constants().cuda_slots_width));
  const uint64_t in_one_replica = uint64_t{kLinksToAPeer} * static_cast<uint64_t>(std::max(1, ranks - 1));
  const uint64_t links = in_one_replica * sizes.slots_width;
  sizes.message = std::bit_floor(std::clamp(sizes.arena / links / link::kPushSlots, kShortest, kLongest));
  // Only programs of width 1 have links in lines.
  const uint64_t slot = kLinesArena / in_one_replica / link::kLlSlots;
  const auto longest = [](uint64_t fits, uint64_t most) {
    return std::bit_floor(std::clamp(fits, kShortestInLines, std::min(most, link::kLongestInLines)));
  };
  sizes.lines = longest(slot / sizeof(link::Line) * link::kLineData, machine_constants().cuda_ll_up_to);
  sizes.ll128 = longest(slot - slot / 8, machine_constants().cuda_ll128_up_to);
  for (const uint32_t lane : {link::kLlLanes, link::kLl128Lanes}) {
    sizes.arena += in_one_replica * link::kLlSlots * line_slot(sizes, lane);
  }
  sizes.arena += in_one_replica * (width - sizes.slots_width) * (kRingBytes + link::kStride);
  return sizes;
}

uint64_t staging_for(const Device& device) {
  if (PeerMemory::form_for(device) == CudaMemory::Host) return 0;
  constexpr uint64_t kLeast = 4 << 20, kMost = 256 << 20, kPart = 512;
  const auto of_gpu = [&] { return std::clamp(device.memory_bytes() / kPart, kLeast, kMost); };
  return env().cuda_arena ? env().cuda_arena->value : of_gpu();
}

struct CudaLinks::Request {
  uint32_t link_lane;
  uint32_t part;
};
/// Any other answer is a refusal: text for the user.
struct CudaLinks::Answer {
  uint64_t magic;
  uint64_t offset;  // of the ring or counter, in the memory
  Share share;      // Part::Memory, which brings a descriptor too
};

/// Answers peers of other processes. Outlives the transport: a reader may ask after its writer has left.
struct CudaLinks::Service {
  explicit Service(std::shared_ptr<LinkArena> memory) : arena(std::move(memory)) {}
  const std::shared_ptr<LinkArena> arena;

  Wireup::Reply answer(Rank from, const std::string& bytes) {
    Request request{};
    if (!unpack(bytes, request)) return {"the request is invalid", Fd()};
    try {
      switch (static_cast<Part>(request.part)) {
        case Part::Ring:
          return {pack(Answer{kMagic, arena->ring(from, request.link_lane), {}}), Fd()};
        case Part::Counter:
          return {pack(Answer{kMagic, arena->counter(from, request.link_lane), {}}), Fd()};
        case Part::Memory:
          return {pack(Answer{kMagic, 0, arena->memory().share()}), arena->memory().share_fd()};
      }
      return {"the request is invalid", Fd()};
    } catch (const std::exception& error) {
      return {error.what(), Fd()};
    }
  }
};

CudaLinks::CudaLinks(Wireup& wireup, const Device& device, const LinkSizes& sizes, uint64_t staging)
    : wireup_(wireup),
      device_(device),
      sizes_(sizes),
      service_(std::make_shared<Service>(make_arena(device, sizes, staging))) {
  Retired::instance().begin(device);
  Neighbours<LinkArena>::instance().add({wireup.name(), wireup.rank()}, service_->arena);
  wireup.serve(kService,
               [service = service_](Rank from, const std::string& request) { return service->answer(from, request); });
}

CudaLinks::~CudaLinks() {
  Retired::instance().end(device_);
  for (auto& [peer, memory] : mapped_) Retired::instance().put(device_, std::move(memory));
}

bool CudaLinks::is_thread(Rank peer) const { return wireup_.process_id(peer) == wireup_.process_id(wireup_.rank()); }

Reach CudaLinks::probe(Rank peer) const {
  if (wireup_.process_id(peer).host != wireup_.process_id(wireup_.rank()).host) {
    return {.ok = false, .why_not = "another host, or other namespaces of this host"};
  }
  return {.ok = true, .alpha = machine_constants().cuda_alpha, .beta = machine_constants().cuda_beta};
}

uint64_t CudaLinks::longest_message() const { return sizes_.message; }

unsigned char* CudaLinks::staging() const { return service_->arena->staging(); }
uint64_t CudaLinks::staging_bytes() const { return service_->arena->staging_bytes(); }

std::array<link::MappedRegion, link::kFirstUserRegion> CudaLinks::regions_of(Rank peer) {
  std::array<link::MappedRegion, link::kFirstUserRegion> regions{};
  const bool thread = is_thread(peer);
  const PeerMemory& theirs = thread ? neighbour(peer).memory() : *mapped_.at(peer);
  regions[link::kStagingRegion] = {theirs.base(), theirs.bytes()};
  const bool same = thread && &neighbour(peer).device() == &device_;
  if (same) regions[link::kAddressRegion] = {nullptr, ~uint64_t{0}};
  return regions;
}

std::vector<std::string> CudaLinks::ll128_capable_peers() const {
  if (service_->arena->memory().form() == CudaMemory::Host) return {};
  return device_.nvlink_peers();
}

Capabilities CudaLinks::capabilities(Rank peer, const Word&) const {
  const bool whole = !whole_.empty() && whole_[static_cast<size_t>(peer)];
  const link::Access access{
      .push_bytes = sizes_.message, .ll_bytes = sizes_.lines, .ll128_bytes = whole ? sizes_.ll128 : 0};
  return {.out = access, .in = access};
}

link::OutLink CudaLinks::connect_out(Rank peer, uint32_t link_lane, Deadline deadline) {
  unsigned char* const ring = part_of(peer, link_lane, Part::Ring, deadline);
  const uint64_t counter = service_->arena->counter(peer, link_lane);
  if (link_lane >= link::kLlLanes) {
    return {.consumed = reinterpret_cast<const uint64_t*>(service_->arena->memory().base() + counter),
            .arena = ring,
            .push_bytes = line_slot(sizes_, link_lane),
            .peer = peer,
            .form = form_of(link_lane)};
  }
  return {.ring = ring,
          .consumed = reinterpret_cast<const uint64_t*>(service_->arena->memory().base() + counter),
          .arena = ring + kRingBytes,
          .push_bytes = has_slots(sizes_, link_lane) ? sizes_.message : 0,
          .peer = peer,
          .staging = service_->arena->memory().base()};
}

link::InLink CudaLinks::connect_in(Rank peer, uint32_t link_lane, Deadline deadline) {
  unsigned char* const counter = part_of(peer, link_lane, Part::Counter, deadline);
  const unsigned char* const ring = service_->arena->memory().base() + service_->arena->ring(peer, link_lane);
  if (link_lane >= link::kLlLanes) {
    return {.consumed = reinterpret_cast<uint64_t*>(counter),
            .arena = ring,
            .arena_bytes = link::kLlSlots * line_slot(sizes_, link_lane),
            .peer = peer,
            .form = form_of(link_lane)};
  }
  return {.ring = ring,
          .consumed = reinterpret_cast<uint64_t*>(counter),
          .arena = ring + kRingBytes,
          .arena_bytes = has_slots(sizes_, link_lane) ? link::kPushSlots * sizes_.message : 0,
          .peer = peer,
          .mapped = true};
}

void CudaLinks::meet(Deadline deadline) {
  for (Rank peer = 0; peer < wireup_.ranks(); ++peer) {
    if (peer == wireup_.rank() || !probe(peer).ok) continue;
    is_thread(peer) ? void(neighbour(peer)) : void(mapped(peer, deadline));
  }
}

std::vector<SharedBuffers::Peer> CudaLinks::peers() const {
  std::vector<SharedBuffers::Peer> peers;
  for (Rank peer = 0; peer < wireup_.ranks(); ++peer) {
    if (peer == wireup_.rank() || !probe(peer).ok) continue;
    peers.push_back({peer, is_thread(peer) ? &neighbours_.at(peer)->device() : nullptr});
  }
  return peers;
}

/// Where the peer's part of a link is, as this GPU addresses it.
unsigned char* CudaLinks::part_of(Rank peer, uint32_t link_lane, Part part, Deadline deadline) {
  if (!is_thread(peer)) return ask_part(peer, link_lane, part, deadline);
  LinkArena& arena = neighbour(peer);
  const uint64_t offset =
      part == Part::Ring ? arena.ring(wireup_.rank(), link_lane) : arena.counter(wireup_.rank(), link_lane);
  return arena.memory().base() + offset;
}

/// Of a rank in this process.
LinkArena& CudaLinks::neighbour(Rank peer) {
  std::shared_ptr<LinkArena>& arena = neighbours_[peer];
  if (arena == nullptr) {
    const auto found = Neighbours<LinkArena>::instance().find({wireup_.name(), peer});
    if (found == nullptr) throw_error(Code::PeerFailed, "cuda: rank {} has left, or uses no GPU", peer);
    found->memory().open_to(device_);
    arena = found;
  }
  return *arena;
}

/// Of a rank in another process.
PeerMemory& CudaLinks::mapped(Rank peer, Deadline deadline) {
  std::shared_ptr<PeerMemory>& theirs = mapped_[peer];
  if (theirs == nullptr) {
    Answer answer{};
    Fd fd = ask(peer, {0, static_cast<uint32_t>(Part::Memory)}, answer, deadline);
    theirs = PeerMemory::import(device_, answer.share, std::move(fd), fmt::format("rank {}", peer));
  }
  return *theirs;
}

unsigned char* CudaLinks::ask_part(Rank peer, uint32_t link_lane, Part part, Deadline deadline) {
  const PeerMemory& theirs = mapped(peer, deadline);
  Answer answer{};
  ask(peer, {link_lane, static_cast<uint32_t>(part)}, answer, deadline);
  const uint64_t needed = part == Part::Ring ? service_->arena->ring_bytes(link_lane) : link::kStride;
  if (answer.offset % link::kStride != 0 || theirs.bytes() < needed || answer.offset > theirs.bytes() - needed) {
    throw_error(Code::ProtocolError, "cuda: rank {} states an invalid link: at byte {} of its {} bytes", peer,
                answer.offset, theirs.bytes());
  }
  return theirs.base() + answer.offset;
}

/// Asks the peer's control thread; returns the descriptor that came along.
Fd CudaLinks::ask(Rank peer, const Request& request, Answer& answer, Deadline deadline) {
  Wireup::Reply reply = wireup_.ask(peer, kService, pack(request), deadline);
  if (!unpack(reply.bytes, answer) || answer.magic != kMagic) {
    throw_error(Code::PeerFailed, "cuda: rank {} made no link: {}", peer, printable_reply(reply.bytes));
  }
  return std::move(reply.fd);
}

}  // namespace tutti::cuda
