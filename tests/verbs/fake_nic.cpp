#include "verbs/fake_nic.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "base/format.hpp"
#include "verbs/fake_wire.hpp"

namespace tutti::test {

using namespace transports::verbs;  // NOLINT(google-build-using-namespace): the interface that this implements

namespace {

constexpr uint32_t kRetries = 1000;  // of a notice that finds no receive

/// Bytes on their way into memory.
struct Placement {
  uint32_t key = 0;
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

}  // namespace

class FakeQueue final : public Queue {
 public:
  FakeQueue(std::deque<Completion>& into, const QueueNeeds& needs) : into_(into), needs_(needs) {
    const std::lock_guard lock(wire().mutex);
    number_ = ++wire().last_queue;
    wire().queues[number_] = this;
  }
  ~FakeQueue() override { stop(); }

  QueueAddress address() const override { return {number_, 7}; }
  void connect(const NicAddress&, const QueueAddress& peer, uint32_t reads) override {
    if (reads == 0) throw_error(Code::SystemError, "verbs: a queue without reads");
    peer_ = peer.number;
  }

  int post(const Work& work) override {
    const std::lock_guard lock(wire().mutex);
    if (stopped_ || works_ >= needs_.works) return ENOMEM;
    ++works_;
    Posted posted{work, {}};
    if (work.inlined) posted.bytes = gather(work);
    if (work.inlined && posted.bytes.size() > fake_nic_rules().max_inline) return EINVAL;
    if (posted_bytes(work) > fake_nic_rules().max_message) return EINVAL;
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
    if (wire().changes_word == this) wire().changes_word = nullptr;
    stopped_ = true;
  }

  // Under the wire's mutex.

  /// Sends the first work request, or not yet.
  void step() {
    if (wire().chance(3)) place_some();
    if (posted_.empty() || held_ || !wire().chance(fake_nic_rules().lazy)) return;
    const Posted& first = posted_.front();
    if (failed_) return finish(Completion::Result::Flushed, "work request flushed");
    const auto found = wire().queues.find(peer_);
    const bool reached = found != wire().queues.end() && !fake_nic_rules().apart;
    if (!reached) return fail(Completion::Result::Unreachable, "transport retry counter exceeded");
    FakeQueue& peer = *found->second;
    if (peer.failed_ || peer.deaf_) return fail(Completion::Result::Unreachable, "transport retry counter exceeded");
    if (is_fetch(first.work)) return fetch(first.work, peer);
    const bool notifies = first.work.kind != Work::Kind::Write;
    if (notifies && !peer.takes_notice(retries_)) {
      if (++retries_ > kRetries) fail(Completion::Result::NotReady, "RNR retry counter exceeded");
      return;
    }
    retries_ = 0;
    if (!first.work.inlined && !may_use(first.work, false)) {
      return fail(Completion::Result::Other, "local protection error");
    }
    const std::vector<unsigned char> bytes = first.work.inlined ? first.bytes : gather(first.work);
    if (!bytes.empty() && !peer.permits(first.work, bytes.size())) return refuse();
    if (!bytes.empty()) peer.arrive(first.work, bytes);
    if (notifies) peer.notify(first.work.notice);
    finish(Completion::Result::Ok, "success");
  }
  /// Places all that is on its way into the region.
  void settle(uint32_t key) {
    const auto has_key = [&](const Placement& p) { return p.key == key; };
    if (std::any_of(placements_.begin(), placements_.end(), has_key)) place_all();
    if (wire().changes_word == this && !posted_.empty() && posted_.front().work.remote_key == key) {
      wire().changes_word = nullptr;
    }
  }
  void deafen() { deaf_ = true; }
  void hold() { held_ = true; }
  bool is_of(const std::deque<Completion>& device) const { return &into_ == &device; }

 private:
  struct Posted {
    Work work;
    std::vector<unsigned char> bytes;  // if they are inline
  };

  static uint64_t posted_bytes(const Work& work) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < work.count; ++i) bytes += work.pieces[i].bytes;
    return bytes;
  }
  static std::vector<unsigned char> gather(const Work& work) {
    std::vector<unsigned char> bytes;
    for (uint32_t i = 0; i < work.count; ++i) {
      const auto* at = static_cast<const unsigned char*>(work.pieces[i].at);
      if (!work.inlined) at += wire().regions[work.pieces[i].key].moved;
      bytes.insert(bytes.end(), at, at + work.pieces[i].bytes);
    }
    return bytes;
  }
  /// As the one that asks: its device reads, or writes, the pieces.
  static bool may_use(const Work& work, bool write) {
    return std::all_of(work.pieces, work.pieces + work.count, [&](const Piece& piece) {
      return wire().allows(piece.key, reinterpret_cast<uint64_t>(piece.at), piece.bytes, write);
    });
  }
  /// As the one that is asked.
  bool permits(const Work& work, uint64_t bytes) const {
    if (needs_.access == PeerAccess::None) return false;
    if (is_fetch(work) && needs_.access != PeerAccess::All) return false;
    return wire().allows(work.remote_key, work.remote, bytes, true, is_fetch(work));
  }
  void refuse() { fail(Completion::Result::Refused, "remote access error"); }

  static bool is_fetch(const Work& work) {
    return work.kind == Work::Kind::Read || work.kind == Work::Kind::Add || work.kind == Work::Kind::CompareSwap;
  }
  /// A read or an atomic step: it sees all that was written before.
  void fetch(const Work& work, FakeQueue& peer) {
    if (!may_use(work, true)) return fail(Completion::Result::Other, "local protection error");
    const Piece& into = work.pieces[0];
    if (!peer.permits(work, into.bytes)) return refuse();
    if (work.kind == Work::Kind::Read) {
      peer.place_all();
      std::memcpy(const_cast<void*>(into.at), reinterpret_cast<const void*>(work.remote), into.bytes);
      return finish(Completion::Result::Ok, "success");
    }
    const transports::RemoteAtomics atomics = fake_nic_rules().atomics;
    if (atomics == transports::RemoteAtomics::None || into.bytes != sizeof(uint64_t) ||
        work.remote % sizeof(uint64_t) != 0) {
      return fail(Completion::Result::Other, "remote invalid request error");
    }
    auto* const word = reinterpret_cast<uint64_t*>(work.remote);
    if (wire().changes_word == nullptr) {
      peer.place_all();
      wire().changes_word = this;
      word_before_ = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      if (atomics == transports::RemoteAtomics::BetweenDevices) return;
    }
    if (wire().changes_word != this) return;
    const bool equal = work.kind == Work::Kind::Add || word_before_ == work.expected;
    const uint64_t after = work.kind == Work::Kind::Add ? word_before_ + work.operand : work.operand;
    if (atomics == transports::RemoteAtomics::BetweenDevices && equal) {
      __atomic_store_n(word, after, __ATOMIC_RELEASE);
    } else if (atomics == transports::RemoteAtomics::Global) {
      word_before_ = step_of_all(work, word);
    }
    wire().changes_word = nullptr;
    ++wire().atomic_steps;
    std::memcpy(const_cast<void*>(into.at), &word_before_, sizeof word_before_);
    finish(Completion::Result::Ok, "success");
  }
  static uint64_t step_of_all(const Work& work, uint64_t* word) {
    if (work.kind == Work::Kind::Add) return __atomic_fetch_add(word, work.operand, __ATOMIC_SEQ_CST);
    uint64_t before = work.expected;
    __atomic_compare_exchange_n(word, &before, work.operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return before;
  }

  bool takes_notice(uint32_t tries) const {
    if (fake_nic_rules().never_ready) return false;
    return receives_ > 0 && (tries > 0 || !wire().chance(fake_nic_rules().not_ready));
  }

  void arrive(const Work& work, const std::vector<unsigned char>& bytes) {
    const Wire::Memory& memory = wire().regions[work.remote_key];
    const uint64_t to = work.remote + memory.moved;
    if (memory.use == RegionUse::Words) {
      placements_.push_back({work.remote_key, to, bytes, true});
      return;
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t some = std::min<size_t>(bytes.size() - at, 1 + wire().random() % 100000);
      placements_.push_back(
          {work.remote_key,
           to + at,
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
  void place_all() {
    while (!placements_.empty()) place_some();
  }
  void notify(uint32_t notice) {
    place_all();
    --receives_;
    into_.push_back({.id = needs_.receive_id, .received = true, .notice = notice, .text = "success"});
  }

  void fail(Completion::Result result, const char* text) {
    failed_ = true;
    finish(result, text);
  }
  void finish(Completion::Result result, const char* text) {
    const Work work = posted_.front().work;
    if (work.count > 0) ++wire().works;
    if (wire().changes_word == this) wire().changes_word = nullptr;
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
  uint64_t word_before_ = 0;  // of the atomic step under way
  bool failed_ = false, deaf_ = false, held_ = false, stopped_ = false;
};

namespace {

void step_all() {
  for (auto& [number, queue] : wire().queues) queue->step();
}

class FakeNic final : public Nic {
 public:
  FakeNic() {
    const std::lock_guard lock(wire().mutex);
    info_ = {.name = "fake:1", .max_inline = fake_nic_rules().max_inline, .immediate = fake_nic_rules().immediate};
    info_.adaptive = fake_nic_rules().adaptive;
    info_.dmabuf = fake_nic_rules().dmabuf;
    info_.address.mtu = 1024;
    info_.atomics = fake_nic_rules().atomics;
    info_.max_message = fake_nic_rules().max_message;
    info_.max_reads = 4;
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
    step_all();
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

void settle_fake_queues(uint32_t key) {
  for (auto& [number, queue] : wire().queues) queue->settle(key);
}

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

uint64_t fake_works() {
  const std::lock_guard lock(wire().mutex);
  return wire().works;
}

uint64_t fake_atomic_steps() {
  const std::lock_guard lock(wire().mutex);
  return wire().atomic_steps;
}

FakeWorker::FakeWorker()
    : thread_([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          {
            const std::lock_guard lock(wire().mutex);
            step_all();
          }
          std::this_thread::yield();
        }
      }) {}

void deafen_fake_queues() {
  const std::lock_guard lock(wire().mutex);
  for (auto& [number, queue] : wire().queues) queue->deafen();
}

void hold_fake_queue(uint32_t number) {
  const std::lock_guard lock(wire().mutex);
  wire().queues.at(number)->hold();
}

void raise_fake_events(const char* text, bool of_queues, bool fatal) {
  const std::lock_guard lock(wire().mutex);
  wire().events.clear();
  if (!of_queues) return wire().events.push_back({text, 0, fatal});
  for (const auto& [number, queue] : wire().queues) wire().events.push_back({text, number, fatal});
}

std::unique_ptr<Nic> make_fake_nic() { return std::make_unique<FakeNic>(); }

}  // namespace tutti::test
