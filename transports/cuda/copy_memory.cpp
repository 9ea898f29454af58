#include "transports/cuda/copy_memory.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "transports/cuda/neighbours.hpp"
#include "transports/cuda/retired.hpp"
#include "transports/pod_text.hpp"

namespace tutti::cuda {
namespace {

using transports::pack;
using transports::printable_reply;
using transports::unpack;
using transports::Wireup;

constexpr const char* kService = "cuda-copies";
constexpr uint64_t kMagic = 0x31706f63'63697474;  // "ttccop1"
constexpr uint32_t kStaging = 0, kWords = 1;

struct Request {
  uint32_t part;
};
/// Any other answer is a refusal: text for the user.
struct Answer {
  uint64_t magic;
  Share share;
};

Wireup::Reply answer(CopyMemory& memory, const std::string& bytes) {
  Request request{};
  if (!unpack(bytes, request) || request.part > kWords) return {"the request is invalid", Fd()};
  try {
    const PeerMemory& part = request.part == kStaging ? memory.staging() : memory.words();
    return {pack(Answer{kMagic, part.share()}), part.share_fd()};
  } catch (const std::exception& error) {
    return {error.what(), Fd()};
  }
}

uint64_t bytes_of_words(Rank ranks) { return CopyMemory::offset_of(ranks); }

void store(uint32_t& word, uint32_t value) { std::atomic_ref<uint32_t>(word).store(value, std::memory_order_release); }

CUdeviceptr address(const PeerMemory& memory) { return reinterpret_cast<CUdeviceptr>(memory.base()); }

std::shared_ptr<CopyMemory> make_memory(const Device& device, Rank ranks, uint64_t staging) {
  return {new CopyMemory(device, ranks, staging),
          [](CopyMemory* gone) { Retired::instance().put(gone->device(), std::shared_ptr<CopyMemory>(gone)); }};
}

}  // namespace

const PeerMemory& CopyMemory::staging() {
  const std::lock_guard lock(mutex_);
  if (staging_ == nullptr) staging_ = PeerMemory::create(device_, bytes_);
  return *staging_;
}

const PeerMemory& CopyMemory::words() {
  const std::lock_guard lock(mutex_);
  if (words_ != nullptr) return *words_;
  const auto made = PeerMemory::create_on_host(device_, bytes_of_words(ranks_));
  auto* const peers = reinterpret_cast<PeerWords*>(made->on_host() + offset_of(0));
  for (Rank peer = 0; peer < ranks_; ++peer) {
    for (uint32_t& free : peers[peer].free) free = 1;
  }
  words_ = made;
  return *words_;
}

bool CopyMemory::is_used() const {
  const std::lock_guard lock(mutex_);
  return words_ != nullptr;
}

CopyPosition& CopyMemory::position() { return *reinterpret_cast<CopyPosition*>(words().on_host()); }

PeerWords& CopyMemory::of(Rank peer) { return *reinterpret_cast<PeerWords*>(words().on_host() + offset_of(peer)); }

void CopyMemory::release() {
  for (Rank peer = 0; peer < ranks_; ++peer) {
    PeerWords& words = of(peer);
    for (TagWords& arrived : words.arrived) {
      store(arrived.tag, kReleased);
      store(arrived.rest, kReleased);
    }
    for (uint32_t& free : words.free) store(free, kReleased);
  }
}

CopyPeers::CopyPeers(Wireup& wireup, const Device& device, uint64_t staging)
    : wireup_(wireup), device_(device), staging_(staging), own_(make_memory(device, wireup.ranks(), staging)) {
  Retired::instance().begin(device);
  Neighbours<CopyMemory>::instance().add({wireup.name(), wireup.rank()}, own_);
  wireup.serve(kService, [own = own_](Rank, const std::string& request) { return answer(*own, request); });
}

CopyPeers::~CopyPeers() {
  Retired::instance().end(device_);
  Retired::instance().put(device_, keep());
}

/// Graphs let go of it in a thread of the driver, which may not call the driver.
std::shared_ptr<void> CopyPeers::keep() const {
  using Kept = std::vector<std::shared_ptr<void>>;
  auto kept = std::make_unique<Kept>();
  kept->push_back(own_);
  for (const auto& [rank, connected] : peers_) {
    kept->insert(kept->end(), {connected.thread, connected.staging, connected.words});
  }
  return {kept.release(), [](Kept* gone) { Retired::instance().hand_over(std::shared_ptr<Kept>(gone)); }};
}

const CopyPeers::Peer& CopyPeers::peer(Rank peer, Deadline deadline) {
  const auto known = peers_.find(peer);
  if (known != peers_.end()) return known->second.peer;
  return peers_.emplace(peer, connect(peer, deadline)).first->second.peer;
}

CopyPeers::Connected CopyPeers::connect(Rank peer, Deadline deadline) {
  Connected made;
  if (wireup_.process_id(peer) == wireup_.process_id(wireup_.rank())) {
    made.thread = Neighbours<CopyMemory>::instance().find({wireup_.name(), peer});
    if (made.thread == nullptr) throw_error(Code::PeerFailed, "cuda: rank {} has left, or uses no GPU", peer);
    made.thread->staging().open_to(device_);
    made.peer = {address(made.thread->staging()), address(made.thread->words())};
  } else {
    made.staging = ask(peer, kStaging, staging_, deadline);
    made.words = ask(peer, kWords, bytes_of_words(wireup_.ranks()), deadline);
    made.peer = {address(*made.staging), address(*made.words)};
  }
  made.peer.words += CopyMemory::offset_of(wireup_.rank());
  return made;
}

std::shared_ptr<PeerMemory> CopyPeers::ask(Rank peer, uint32_t part, uint64_t bytes, Deadline deadline) {
  Wireup::Reply reply = wireup_.ask(peer, kService, pack(Request{part}), deadline);
  Answer answer{};
  if (!unpack(reply.bytes, answer) || answer.magic != kMagic) {
    throw_error(Code::PeerFailed, "cuda: rank {} gives no memory for the copy engines: {}", peer,
                printable_reply(reply.bytes));
  }
  if (answer.share.bytes < bytes) {
    throw_error(Code::ProtocolError, "cuda: rank {} gives {} bytes for the copy engines, where {} are due", peer,
                answer.share.bytes, bytes);
  }
  return PeerMemory::import(device_, answer.share, std::move(reply.fd), fmt::format("rank {}", peer));
}

}  // namespace tutti::cuda
