// Links between processes of one host: the ring and the payloads lie in the writer's arena, which the reader maps.
//
// An arena is a Segment, one descriptor per rank. The reader asks the writer's control thread for a link; the answer
// says where in the arena its LinkMemory is, and the first answer brings the descriptor. The end that comes first
// creates the LinkMemory, so neither waits for the other's user threads.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "link/arena_memory.hpp"
#include "link/cma.hpp"
#include "link/host_ends.hpp"
#include "link/mapped_memory.hpp"
#include "link/peer_regions.hpp"
#include "link/segment.hpp"
#include "topo/constants.hpp"
#include "transports/pod_text.hpp"
#include "transports/shm/state.hpp"
#include "transports/shm/tracer.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

using link::Segment;

constexpr const char* kService = "shm";
constexpr const char* kMapService = "shm-map";
constexpr uint32_t kMaxProcessId = 1 << 22;  // Linux: PID_MAX_LIMIT
constexpr size_t kKeptMappings = 64;         // of one peer, from one call to the next
constexpr size_t kMaxMappings = 4096;        // of one peer in one call

struct Request {
  uint32_t link_lane;
  uint32_t needs_memory;  // 1: the answer brings the arena's descriptor
};
/// Any other answer is a refusal: text for the user.
struct Answer {
  uint64_t magic;
  uint64_t arena_offset;  // in the file
  uint64_t arena_bytes;
  uint64_t link;  // offset of the LinkMemory in the arena
};
/// Asks to map region `id`. The answer brings the descriptor.
struct MapRequest {
  uint64_t id;
};
struct MapAnswer {
  uint64_t magic;
  uint64_t bytes;
};
constexpr uint64_t kMagic = 0x326d6873'69747574;  // "tutishm2"

/// The links that this rank writes. Outlives the transport: a reader may ask for a link after its writer has written
/// everything and left.
class Outgoing {
 public:
  explicit Outgoing(const Context& context)
      : file_(context.arena_file),
        offset_(context.arena_offset),
        bytes_(context.arena->bytes()),
        arena_(context.arena) {}

  /// The offset of the link to `reader` in the arena. Throws Error(OutOfMemory), or InvalidUsage after close().
  uint64_t link(Rank reader, uint32_t link_lane) {
    const std::lock_guard lock(mutex_);
    const auto known = links_.find({reader, link_lane});
    if (known != links_.end()) return known->second;
    if (arena_ == nullptr) throw_error(Code::InvalidUsage, "the rank left without having used this link");
    const auto offset = static_cast<uint64_t>(arena_->reserve(sizeof(link::LinkMemory)) - arena_->base());
    links_.emplace(std::pair(reader, link_lane), offset);
    return offset;
  }

  Wireup::Reply answer(Rank reader, const std::string& bytes) {
    Request request{};
    if (!unpack(bytes, request)) return {"the request is invalid", Fd()};
    try {
      const Answer answer{kMagic, offset_, bytes_, link(reader, request.link_lane)};
      if (request.needs_memory == 0) return {pack(answer), Fd()};
      Fd copy(::fcntl(file_->get(), F_DUPFD_CLOEXEC, 0));
      if (!copy) return {"no descriptor is left; raise ulimit -n", Fd()};
      return {pack(answer), std::move(copy)};
    } catch (const std::exception& error) {
      return {error.what(), Fd()};
    }
  }

  /// The arena is about to go: existing links are still answered, no new ones are made.
  void close() {
    const std::lock_guard lock(mutex_);
    arena_ = nullptr;
  }

 private:
  const std::shared_ptr<const Fd> file_;
  const uint64_t offset_, bytes_;
  std::mutex mutex_;
  link::Arena* arena_;
  std::map<std::pair<Rank, uint32_t>, uint64_t> links_;
};

/// Gives peers the descriptor of a region of this process.
Wireup::Reply export_region(const std::string& bytes) {
  MapRequest request{};
  if (!unpack(bytes, request)) return {"the request is invalid", Fd()};
  link::SharedMemory::Exported region = link::SharedMemory::of_this_process().export_region(request.id);
  if (region.bytes == 0) return {"there is no such region (any more)", Fd()};
  if (!region.fd) return {"no descriptor is left; raise ulimit -n", Fd()};
  return {pack(MapAnswer{kMagic, region.bytes}), std::move(region.fd)};
}

/// A peer's regions, each mapped at its first message. What a call has found stays mapped until the next call begins:
/// a lane may still read it.
class ShmMappings final : public link::PeerMappings {
 public:
  ShmMappings(Wireup& wireup, link::PeerRegions& regions, Rank peer, const uint64_t* calls)
      : wireup_(wireup), regions_(regions), peer_(peer), calls_(calls) {}

  unsigned char* find(uint64_t id, uint64_t offset, uint64_t bytes, int& error) override {
    auto found = std::find_if(open_.begin(), open_.end(), [&](const Mapping& mapping) { return mapping.id == id; });
    if (found == open_.end()) {
      error = open(id);
      if (error != 0) return nullptr;
      found = open_.begin();
    }
    const Segment& memory = *found->memory;
    if (offset > memory.bytes() || bytes > memory.bytes() - offset) {
      error = EFAULT;
      return nullptr;
    }
    found->used = call();
    if (found != open_.begin()) std::rotate(open_.begin(), found, found + 1);
    return open_.front().memory->base() + offset;
  }

 private:
  struct Mapping {
    uint64_t id;
    link::PeerRegions::Mapped memory;
    uint64_t used = 0;  // in this call
  };

  uint64_t call() const { return calls_ != nullptr ? *calls_ : 0; }

  /// Unmaps what was used least recently, but nothing that this call uses. False if there is no room for another.
  bool make_room() {
    while (open_.size() >= kKeptMappings && open_.back().used != call()) open_.pop_back();
    if (open_.size() < kMaxMappings) return true;
    log_warn("rank {} lends memory of more than {} blocks of tuttiMemAlloc in one call or group; divide the group",
             peer_, kMaxMappings);
    return false;
  }

  int open(uint64_t id) {
    if (!make_room()) return ENOBUFS;
    try {
      link::PeerRegions::Mapped memory = regions_.find(peer_, id);
      if (memory == nullptr) {
        Wireup::Reply reply = wireup_.ask(peer_, kMapService, pack(MapRequest{id}), Deadline::in(env().timeout));
        MapAnswer answer{};
        if (!unpack(reply.bytes, answer) || answer.magic != kMagic) return ENOENT;
        memory = regions_.add(peer_, id,
                              Segment::map(std::move(reply.fd), {0, answer.bytes}, fmt::format("rank {}", peer_)));
      }
      open_.insert(open_.begin(), Mapping{id, std::move(memory), call()});
      return 0;
    } catch (const Error& error) {
      log_debug("shm: rank {}'s memory cannot be mapped: {}", peer_, error.what());
      switch (error.code()) {
        case Code::Timeout:
          return ETIMEDOUT;
        case Code::OutOfMemory:
          return ENOMEM;
        case Code::ProtocolError:
          return EPROTO;
        default:
          return ECONNRESET;
      }
    }
  }

  Wireup& wireup_;
  link::PeerRegions& regions_;
  const Rank peer_;
  const uint64_t* const calls_;
  std::vector<Mapping> open_;  // most recently used first
};

class Shm final : public Transport {
 public:
  explicit Shm(const Context& context) : context_(context) {
    if (context.arena_file == nullptr) return;
    outgoing_ = std::make_shared<Outgoing>(context);
    context.wireup->serve(kService, [outgoing = outgoing_](Rank from, const std::string& request) {
      return outgoing->answer(from, request);
    });
    context.wireup->serve(kMapService, [](Rank, const std::string& request) { return export_region(request); });
    if (context.direct_access) permit_cma(others_of_host(), [this](int process) { return is_confirmed(process); });
  }
  ~Shm() override {
    if (outgoing_) outgoing_->close();
  }
  Shm(const Shm&) = delete;
  Shm& operator=(const Shm&) = delete;

  const char* name() const override { return "shm"; }
  bool is_engine() const override { return false; }

  Reach probe(Rank peer) const override {
    const ProcessId &mine = context_.wireup->process_id(context_.wireup->rank()),
                    &theirs = context_.wireup->process_id(peer);
    if (mine.host != theirs.host) return {.ok = false, .why_not = "another host, or other namespaces of this host"};
    if (!outgoing_) return {.ok = false, .why_not = "this rank's arena is not shared memory"};
    return {.ok = true, .alpha = machine_constants().shm_alpha, .beta = machine_constants().shm_beta};
  }

  Capabilities capabilities(Rank peer, const Word& word) const override {
    if (!context_.direct_access || !probe(peer).ok) return {};
    constexpr link::Access kAccess{.mapped = true, .cma = true, .cooperative = true};
    return {.out = kAccess, .in = kAccess, .reads = reads(peer, word) ? ReadAccess::Cma : ReadAccess::None};
  }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline) override {
    check(peer);
    unsigned char* const arena = context_.arena->base();
    auto* const memory = reinterpret_cast<link::LinkMemory*>(arena + outgoing_->link(peer, link_lane));
    return {.ring = memory->ring,
            .consumed = &memory->consumed,
            .arena = arena,
            .peer = peer,
            .host = &writers_.emplace_back(link::HostWriter{
                .memory = memory, .process = cma_process(peer), .mappings = &mappings_of(peer, link_lane)})};
  }

  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline deadline) override {
    check(peer);
    Segment& theirs = arenas_[peer];
    const bool first = theirs.base() == nullptr;
    const Request request{link_lane, first ? 1U : 0U};
    Wireup::Reply reply = context_.wireup->ask(peer, kService, pack(request), deadline);
    Answer answer{};
    if (!unpack(reply.bytes, answer) || answer.magic != kMagic) throw_refused(peer, reply.bytes);
    if (first)
      theirs =
          Segment::map(std::move(reply.fd), {answer.arena_offset, answer.arena_bytes}, fmt::format("rank {}", peer));
    if (answer.link % alignof(link::LinkMemory) != 0 || theirs.bytes() < sizeof(link::LinkMemory) ||
        answer.link > theirs.bytes() - sizeof(link::LinkMemory)) {
      throw_error(Code::ProtocolError, "shm: rank {} states an invalid link: at byte {} of its arena of {} bytes", peer,
                  answer.link, theirs.bytes());
    }
    theirs.enter_pages(answer.link, sizeof(link::LinkMemory));
    auto* const memory = reinterpret_cast<link::LinkMemory*>(theirs.base() + answer.link);
    const int process = cma_process(peer);
    return {.ring = memory->ring,
            .consumed = &memory->consumed,
            .arena = theirs.base(),
            .arena_bytes = theirs.bytes(),
            .peer = peer,
            .cma = static_cast<uint64_t>(process),
            .mapped = true,
            .host = &readers_.emplace_back(link::HostReader{
                .memory = memory, .process = process, .mappings = &mappings_of(peer, link_lane), .gate = &gate_})};
  }

 private:
  /// Can this process read the peer's memory by CMA?
  bool reads(Rank peer, const Word& word) const {
    if (word.at == 0) return false;
    uint64_t read = 0;
    const int error = link::cma_read(static_cast<int>(context_.wireup->process_id(peer).process),
                                     reinterpret_cast<const unsigned char*>(word.at),
                                     reinterpret_cast<unsigned char*>(&read), sizeof read);
    return error == 0 && read == word.value;  // another value: the process with its number is another one
  }
  std::vector<int> others_of_host() const {
    const ProcessId& mine = context_.wireup->process_id(context_.wireup->rank());
    std::set<int> others;
    for (Rank peer = 0; peer < context_.wireup->ranks(); ++peer) {
      const ProcessId& theirs = context_.wireup->process_id(peer);
      const bool possible = theirs.process > 0 && theirs.process <= kMaxProcessId;  // the number is not trusted
      if (theirs.host == mine.host && theirs.process != mine.process && possible)
        others.insert(static_cast<int>(theirs.process));
    }
    return {others.begin(), others.end()};
  }
  /// Does the process belong to a rank that says so?
  bool is_confirmed(int process) const {
    const Wireup& wireup = *context_.wireup;
    const Deadline deadline = Deadline::in(env().init_timeout);
    for (Rank peer = 0; peer < wireup.ranks(); ++peer) {
      const ProcessId& theirs = wireup.process_id(peer);
      if (theirs.host != wireup.process_id(wireup.rank()).host || theirs.process != static_cast<uint32_t>(process))
        continue;
      try {
        context_.wireup->confirm_process(peer, deadline);
        return true;
      } catch (const Error& error) {
        log_debug("shm: {}; it may not attach to this process", error.what());
      }
    }
    return false;
  }
  /// Each thread has its own, so that none locks.
  link::PeerMappings& mappings_of(Rank peer, uint32_t link_lane) {
    const std::pair key(peer, link_lane / link::kThreadLinkLanes);
    link::PeerRegions& regions = context_.peer_regions != nullptr ? *context_.peer_regions : regions_;
    return mappings_.try_emplace(key, *context_.wireup, regions, peer, context_.calls).first->second;
  }
  /// The peer's process if CMA may be used, else 0.
  int cma_process(Rank peer) const {
    return context_.direct_access ? static_cast<int>(context_.wireup->process_id(peer).process) : 0;
  }
  void check(Rank peer) const {
    const Reach reach = probe(peer);
    if (!reach.ok) throw_error(Code::Unsupported, "shm cannot reach rank {}: {}", peer, reach.why_not);
  }

  [[noreturn]] static void throw_refused(Rank peer, const std::string& text) {
    throw_error(Code::PeerFailed, "shm: rank {} made no link: {}", peer, printable_reply(text));
  }

  const Context context_;
  std::shared_ptr<Outgoing> outgoing_;
  std::map<Rank, Segment> arenas_;
  link::PeerRegions regions_;  // unless the context has some
  std::map<std::pair<Rank, uint32_t>, ShmMappings> mappings_;
  std::deque<link::HostWriter> writers_;
  std::deque<link::HostReader> readers_;
  link::CmaGate gate_;
};

const TransportRegistration shm_entry({.name = "shm",
                                       .summary = shm::kSummary,
                                       .preference = 20,
                                       .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                         return std::make_unique<Shm>(context);
                                       },
                                       .state = shm::state,
                                       .arena = link::shared_memory});

}  // namespace
}  // namespace tutti::transports
