#include "verbs/fake_nic.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "base/format.hpp"

namespace tutti::test {
namespace {

using namespace transports::verbs;  // NOLINT(google-build-using-namespace): the interface that this implements

constexpr uint32_t kRetries = 1000;  // of a notice that finds no receive

class FakeQueue;

/// What all devices share.
struct Wire {
  std::mutex mutex;
  std::map<uint32_t, FakeQueue*> queues;
  struct Memory {
    uint64_t address = 0, bytes = 0;
    RegionUse use = RegionUse::Send;
    uint64_t moved = 0;  // from the address to where the device has the bytes: a dmabuf's
  };
  std::map<uint32_t, Memory> regions;  // by key
  std::deque<Event> events;
  uint32_t last_queue = 100, last_key = 1000;
  std::minstd_rand random{12345};

  bool chance(uint32_t one_of) { return one_of != 0 && random() % one_of == 0; }
  bool allows(uint32_t key, uint64_t address, uint64_t bytes, bool write) const {
    const auto found = regions.find(key);
    if (found == regions.end() || (write && found->second.use == RegionUse::Send)) return false;
    const Memory& memory = found->second;
    return address >= memory.address && bytes <= memory.bytes && address - memory.address <= memory.bytes - bytes;
  }
};
Wire& wire() {
  static auto* const kWire = new Wire;
  return *kWire;
}

class FakeRegion final : public Region {
 public:
  FakeRegion(void* data, uint64_t size, RegionUse allowed, uint64_t moved = 0) {
    const std::lock_guard lock(wire().mutex);
    if (wire().regions.size() >= fake_nic_rules().max_regions) {
      throw_error(Code::OutOfMemory, "verbs: {} bytes cannot be registered: the fake device is full", size);
    }
    address = reinterpret_cast<uint64_t>(data);
    bytes = size;
    local_key = remote_key = ++wire().last_key;
    wire().regions[local_key] = {address, size, allowed, moved};
  }
  ~FakeRegion() override {
    const std::lock_guard lock(wire().mutex);
    wire().regions.erase(local_key);
  }
};

/// A dmabuf's memory, as the device maps it: not where the GPU's owner has it. It begins at the descriptor's position,
/// as tests/gpu/fake gives it.
struct DmaBufMapping {
  explicit DmaBufMapping(const DmaBuf& memory)
      : bytes(memory.offset + memory.bytes),
        at(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, ::lseek(memory.fd, 0, SEEK_CUR))) {
    if (at == MAP_FAILED) throw_error(Code::OutOfMemory, "verbs: the fake device cannot map the dmabuf");
  }
  ~DmaBufMapping() { ::munmap(at, bytes); }
  DmaBufMapping(const DmaBufMapping&) = delete;
  DmaBufMapping& operator=(const DmaBufMapping&) = delete;
  const uint64_t bytes;
  void* const at;
};

class FakeDeviceRegion final : public Region {
 public:
  FakeDeviceRegion(const DmaBuf& memory, RegionUse allowed)
      : mapping_(memory),
        region_(reinterpret_cast<void*>(memory.address), memory.bytes, allowed,
                reinterpret_cast<uint64_t>(mapping_.at) + memory.offset - memory.address) {
    address = region_.address;
    bytes = region_.bytes;
    local_key = region_.local_key;
    remote_key = region_.remote_key;
  }

 private:
  const DmaBufMapping mapping_;
  const FakeRegion region_;
};

/// Bytes on their way into memory.
struct Placement {
  uint64_t to = 0;
  std::vector<unsigned char> bytes;
  bool word = false;
};

void place(const Placement& what) {
  auto* const to = reinterpret_cast<unsigned char*>(what.to);
  if (what.word && what.bytes.size() == sizeof(uint64_t)) {  // polled without a notice
    uint64_t value = 0;
    std::memcpy(&value, what.bytes.data(), sizeof value);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
  } else if (!what.bytes.empty()) {
    std::memcpy(to, what.bytes.data(), what.bytes.size());
  }
}

class FakeQueue final : public Queue {
 public:
  FakeQueue(std::deque<Completion>& into, const QueueNeeds& needs) : into_(into), needs_(needs) {
    const std::lock_guard lock(wire().mutex);
    number_ = ++wire().last_queue;
    wire().queues[number_] = this;
  }
  ~FakeQueue() override { stop(); }

  QueueAddress address() const override { return {number_, 7}; }
  void connect(const NicAddress&, const QueueAddress& peer) override { peer_ = peer.number; }

  int post(const Work& work) override {
    const std::lock_guard lock(wire().mutex);
    if (stopped_ || works_ >= needs_.works) return ENOMEM;
    ++works_;
    Posted posted{work, {}};
    if (work.inlined) posted.bytes = gather(work);
    if (work.inlined && posted.bytes.size() > fake_nic_rules().max_inline) return EINVAL;
    if (!fake_nic_rules().immediate && work.kind == Work::Kind::WriteNotice) return EINVAL;
    posted_.push_back(std::move(posted));
    return 0;
  }
  int post_receives(uint32_t count) override {
    const std::lock_guard lock(wire().mutex);
    if (receives_ + count > needs_.receives) return ENOMEM;
    receives_ += count;
    return 0;
  }
  void stop() override {
    const std::lock_guard lock(wire().mutex);
    wire().queues.erase(number_);
    stopped_ = true;
  }

  // Under the wire's mutex.

  /// Sends the first work request, or not yet.
  void step() {
    if (wire().chance(3)) place_some();
    if (posted_.empty() || !wire().chance(fake_nic_rules().lazy)) return;
    const Posted& first = posted_.front();
    if (failed_) return finish(Completion::Result::Flushed, "work request flushed");
    const auto found = wire().queues.find(peer_);
    if (found == wire().queues.end()) return fail(Completion::Result::Unreachable, "transport retry counter exceeded");
    FakeQueue& peer = *found->second;
    if (peer.failed_ || peer.deaf_) return fail(Completion::Result::Unreachable, "transport retry counter exceeded");
    const bool notifies = first.work.kind != Work::Kind::Write;
    if (notifies && !peer.takes_notice(retries_)) {
      if (++retries_ > kRetries) fail(Completion::Result::NotReady, "RNR retry counter exceeded");
      return;
    }
    retries_ = 0;
    if (!first.work.inlined && !may_read(first.work)) return fail(Completion::Result::Other, "local protection error");
    const std::vector<unsigned char> bytes = first.work.inlined ? first.bytes : gather(first.work);
    if (!bytes.empty() && !wire().allows(first.work.remote_key, first.work.remote, bytes.size(), true)) {
      return fail(Completion::Result::Refused, "remote access error");
    }
    if (!bytes.empty()) peer.arrive(first.work, bytes);
    if (notifies) peer.notify(first.work.notice);
    finish(Completion::Result::Ok, "success");
  }
  void deafen() { deaf_ = true; }
  bool is_of(const std::deque<Completion>& device) const { return &into_ == &device; }

 private:
  struct Posted {
    Work work;
    std::vector<unsigned char> bytes;  // if they are inline
  };

  static std::vector<unsigned char> gather(const Work& work) {
    std::vector<unsigned char> bytes;
    for (uint32_t i = 0; i < work.count; ++i) {
      const auto* at = static_cast<const unsigned char*>(work.pieces[i].at);
      if (!work.inlined) at += wire().regions[work.pieces[i].key].moved;
      bytes.insert(bytes.end(), at, at + work.pieces[i].bytes);
    }
    return bytes;
  }
  static bool may_read(const Work& work) {
    return std::all_of(work.pieces, work.pieces + work.count, [](const Piece& piece) {
      return wire().allows(piece.key, reinterpret_cast<uint64_t>(piece.at), piece.bytes, false);
    });
  }

  bool takes_notice(uint32_t tries) const {
    if (fake_nic_rules().never_ready) return false;
    return receives_ > 0 && (tries > 0 || !wire().chance(fake_nic_rules().not_ready));
  }

  void arrive(const Work& work, const std::vector<unsigned char>& bytes) {
    const Wire::Memory& memory = wire().regions[work.remote_key];
    const uint64_t to = work.remote + memory.moved;
    if (memory.use == RegionUse::Words) {
      placements_.push_back({to, bytes, true});
      return;
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t some = std::min<size_t>(bytes.size() - at, 1 + wire().random() % 100000);
      placements_.push_back(
          {to + at,
           {bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + some)},
           false});
      at += some;
    }
  }
  /// Places some of the bytes, words in their order.
  void place_some() {
    for (size_t tries = 0; tries < 2 && !placements_.empty(); ++tries) {
      size_t which = wire().random() % placements_.size();
      if (placements_[which].word) which = first_word();
      place(placements_[which]);
      placements_.erase(placements_.begin() + static_cast<ptrdiff_t>(which));
    }
  }
  size_t first_word() const {
    return static_cast<size_t>(
        std::find_if(placements_.begin(), placements_.end(), [](const Placement& p) { return p.word; }) -
        placements_.begin());
  }
  void notify(uint32_t notice) {
    while (!placements_.empty()) place_some();
    --receives_;
    into_.push_back({.id = needs_.receive_id, .received = true, .notice = notice, .text = "success"});
  }

  void fail(Completion::Result result, const char* text) {
    failed_ = true;
    finish(result, text);
  }
  void finish(Completion::Result result, const char* text) {
    const Work work = posted_.front().work;
    posted_.pop_front();
    --works_;
    if (result == Completion::Result::Ok) {
      const bool implied =
          std::any_of(posted_.begin(), posted_.end(), [](const Posted& p) { return p.work.completes; });
      if (!work.completes || fake_nic_rules().drop_all) return;
      if (implied && wire().chance(fake_nic_rules().drop)) return;
    }
    into_.push_back({.id = work.id, .result = result, .text = text});
  }

  std::deque<Completion>& into_;
  const QueueNeeds needs_;
  uint32_t number_ = 0, peer_ = 0;
  std::deque<Posted> posted_;
  std::vector<Placement> placements_;
  uint32_t works_ = 0, receives_ = 0, retries_ = 0;
  bool failed_ = false, deaf_ = false, stopped_ = false;
};

class FakeNic final : public Nic {
 public:
  FakeNic() {
    const std::lock_guard lock(wire().mutex);
    info_ = {.name = "fake:1", .max_inline = fake_nic_rules().max_inline, .immediate = fake_nic_rules().immediate};
    info_.adaptive = fake_nic_rules().adaptive;
    info_.dmabuf = fake_nic_rules().dmabuf;
    info_.address.mtu = 1024;
  }
  const NicInfo& info() const override { return info_; }
  std::unique_ptr<Region> register_memory(void* data, uint64_t bytes, RegionUse use) override {
    return std::make_unique<FakeRegion>(data, bytes, use);
  }
  std::unique_ptr<Region> register_dmabuf(const DmaBuf& memory, RegionUse use) override {
    if (memory.fd < 0) throw_error(Code::OutOfMemory, "verbs: the fake device gets no descriptor");
    return std::make_unique<FakeDeviceRegion>(memory, use);
  }
  std::unique_ptr<Queue> make_queue(const QueueNeeds& needs) override {
    return std::make_unique<FakeQueue>(completions_, needs);
  }
  /// A device works while its process does something else; this one works whenever anybody polls.
  int poll(Completion* into, int most) override {
    const std::lock_guard lock(wire().mutex);
    for (auto& [number, queue] : wire().queues) queue->step();
    int count = 0;
    for (; count < most && !completions_.empty(); ++count) {
      into[count] = completions_.front();
      completions_.pop_front();
    }
    return count;
  }
  Event next_event() override {
    const std::lock_guard lock(wire().mutex);
    for (auto event = wire().events.begin(); event != wire().events.end(); ++event) {
      const auto queue = wire().queues.find(event->queue);
      if (event->queue != 0 && (queue == wire().queues.end() || !queue->second->is_of(completions_))) continue;
      Event found = std::move(*event);
      wire().events.erase(event);
      return found;
    }
    return {};
  }

 private:
  NicInfo info_;
  std::deque<Completion> completions_;  // under the wire's mutex
};

}  // namespace

FakeNicRules& fake_nic_rules() {
  static FakeNicRules rules;
  return rules;
}

void set_fake_nic_rules(const FakeNicRules& rules) {
  const std::lock_guard lock(wire().mutex);
  fake_nic_rules() = rules;
}

uint32_t fake_regions() {
  const std::lock_guard lock(wire().mutex);
  return static_cast<uint32_t>(wire().regions.size());
}

void deafen_fake_queues() {
  const std::lock_guard lock(wire().mutex);
  for (auto& [number, queue] : wire().queues) queue->deafen();
}

void raise_fake_events(const char* text, bool of_queues, bool fatal) {
  const std::lock_guard lock(wire().mutex);
  wire().events.clear();
  if (!of_queues) return wire().events.push_back({text, 0, fatal});
  for (const auto& [number, queue] : wire().queues) wire().events.push_back({text, number, fatal});
}

std::unique_ptr<Nic> make_fake_nic() { return std::make_unique<FakeNic>(); }

}  // namespace tutti::test
