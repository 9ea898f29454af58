#include "compat/torch/point_to_point.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "compat/torch/convert.hpp"
#include "compat/torch/rendezvous.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

/// A receiver may wait for its next message for any time: waits of operations have limits of their own.
constexpr std::chrono::hours kAnyTime{24 * 3650};

constexpr uint64_t kNoMore = ~uint64_t{0};  // in place of a length: the sender closes

std::string key_of(int from, int to) { return c10::str("tutti/from ", from, " to ", to); }

void send_bytes(const void* data, size_t bytes, tuttiComm_t comm) {
  tutti::check(tuttiSend(data, bytes, tuttiUint8, 1, comm, nullptr));
}

/// The error of a pair's communicator, in which the ranks have numbers of their own.
tutti::Error of_pair(const tutti::Error& error, int rank, const char* call, int peer, const std::string& group) {
  return {error.code(), c10::str("rank ", rank, ": ", call, " rank ", peer, " of ", group,
                                 " failed: (here the sender is rank 0 and the receiver rank 1) ", error.what())};
}

}  // namespace

PointToPoint::PointToPoint(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<GroupFacts> facts, tuttiComm_t group,
                           int rank, int ranks)
    : store_(std::move(store)),
      facts_(std::move(facts)),
      group_(group),
      rank_(rank),
      ranks_(ranks),
      to_(static_cast<size_t>(ranks)),
      from_(static_cast<size_t>(ranks)) {}

PointToPoint::~PointToPoint() {
  try {
    close();
  } catch (...) {  // nobody is left to be told
  }
}

PointToPoint::Channel& PointToPoint::channel(std::unique_ptr<Channel>& slot) {
  const std::lock_guard lock(mutex_);
  if (!slot) slot = std::make_unique<Channel>();
  return *slot;
}

void PointToPoint::check_open() const {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw tutti::Error(tutti::Code::Aborted, c10::str("rank ", rank_, ": the group was shut down"));
  }
  tuttiResult_t state = tuttiSuccess;
  tutti::check(tuttiCommGetAsyncError(group_, &state));
  if (state != tuttiSuccess) throw tutti::Error(static_cast<tutti::Code>(state), tuttiCommGetErrorText(group_));
}

tuttiComm_t PointToPoint::open(Channel& channel, int from, int to) {
  if (channel.comm != nullptr) return channel.comm;
  const tuttiComm_t made = join(*store_, {.key = key_of(from, to),
                                          .name = c10::str(facts_->name, " ", from, "->", to),
                                          .rank = rank_ == from ? 0 : 1,
                                          .ranks = 2,
                                          .timeout = kAnyTime,
                                          .check = [this] { check_open(); }});
  const std::lock_guard lock(mutex_);
  channel.comm = made;
  if (closed_) tuttiCommAbort(made);
  return made;
}

void PointToPoint::send(const c10::intrusive_ptr<Work>& work, const at::Tensor& tensor, int peer, int tag) {
  Channel& to = channel(to_[static_cast<size_t>(peer)]);
  work->set_limit(facts_->timeout());
  const auto body = [this, &to, tensor, peer, tag] {
    const tuttiComm_t comm = open(to, rank_, peer);
    const Packed data({}, tensor, Use::In);
    const Header header{tensor.nbytes(), tag};
    try {
      send_bytes(&header, sizeof header, comm);
      if (header.bytes > 0) send_bytes(data.data(), header.bytes, comm);
    } catch (const tutti::Error& error) {
      throw of_pair(error, rank_, "send to", peer, facts_->name);
    }
  };
  to.queue.run(work, body, false);
}

bool PointToPoint::wanted(int source) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(posted_.begin(), posted_.end(),
                     [&](const Posted& p) { return p.source == source || p.source == kAnySource; });
}

bool PointToPoint::take(int source, int64_t tag, Posted& posted) {
  const auto fits = [&](const Posted& p) { return (p.source == source || p.source == kAnySource) && p.tag == tag; };
  const auto found = std::find_if(posted_.begin(), posted_.end(), fits);
  if (found == posted_.end()) return false;
  posted = std::move(*found);
  posted_.erase(found);
  return true;
}

std::string PointToPoint::length_differs(const Posted& posted, int source, uint64_t bytes) const {
  return c10::str("rank ", rank_, ": recv(", posted.tensor.numel(), " elements of ",
                  c10::toString(posted.tensor.scalar_type()), ", ", posted.tensor.nbytes(), " bytes, tag ", posted.tag,
                  ") of ", facts_->name, " met send(", bytes, " bytes, tag ", posted.tag, ") of rank ", source,
                  ": both must have the same length");
}

void PointToPoint::deliver(Posted& posted, int source, const std::vector<std::byte>& data) {
  posted.work->set_source(source);
  execute(*posted.work, [&] {
    if (data.size() != posted.tensor.nbytes()) {
      throw tutti::Error(tutti::Code::Mismatch, length_differs(posted, source, data.size()));
    }
    Packed out({}, posted.tensor, Use::Out);
    if (!data.empty()) std::memcpy(out.data(), data.data(), data.size());
    out.unpack();
  });
}

void PointToPoint::recv(const c10::intrusive_ptr<Work>& work, const at::Tensor& tensor, int source, int tag) {
  Posted posted{work, tensor, source, tag};
  work->set_limit(facts_->timeout());
  std::unique_lock lock(mutex_);
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) {
    return (source == kAnySource || k.source == source) && k.tag == tag;
  });
  if (kept != kept_.end()) {
    const Kept message = std::move(*kept);
    kept_.erase(kept);
    lock.unlock();
    deliver(posted, message.source, message.data);
    return;
  }
  posted_.push_back(std::move(posted));
  lock.unlock();
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_ || (source != kAnySource && peer != source)) continue;
    channel(from_[static_cast<size_t>(peer)]).queue.launch([this, peer] { pump(peer); });
  }
}

void PointToPoint::pump(int source) {
  Channel& from = *from_[static_cast<size_t>(source)];
  try {
    while (wanted(source)) {
      if (from.comm == nullptr && !store_->check({key_of(source, rank_)})) {  // it has not sent yet
        check_open();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (!receive(source, open(from, source, rank_))) {
        throw tutti::Error(tutti::Code::Mismatch,
                           c10::str("rank ", rank_, ": recv from rank ", source, " of ", facts_->name,
                                    ": that rank has left the group and sends no more"));
      }
    }
  } catch (const tutti::Error& error) {
    // A sender that has left sends nothing to a receive from any rank; others still may.
    const bool final = error.code() != tutti::Code::Mismatch && error.code() != tutti::Code::ProtocolError;
    fail_posted(source, as_torch_error(facts_->timeout()), final);
  } catch (...) {
    fail_posted(source, as_torch_error(facts_->timeout()), true);
  }
}

bool PointToPoint::receive(int source, tuttiComm_t comm) {
  Channel& from = *from_[static_cast<size_t>(source)];
  {
    const std::lock_guard lock(mutex_);
    if (from.left) return false;
  }
  Header header{};
  const auto read = [&](void* data, size_t bytes) {
    try {
      if (bytes > 0) tutti::check(tuttiRecv(data, bytes, tuttiUint8, 0, comm, nullptr));
    } catch (const tutti::Error& error) {
      throw of_pair(error, rank_, "recv from", source, facts_->name);
    }
  };
  read(&header, sizeof header);
  Posted posted;
  std::unique_lock lock(mutex_);
  from.left = header.bytes == kNoMore;
  if (from.left) return false;
  const bool taken = take(source, header.tag, posted);
  lock.unlock();
  if (taken && posted.tensor.nbytes() == header.bytes) {
    posted.work->set_source(source);
    execute(*posted.work, [&] {
      const at::Tensor tensor = posted.tensor;
      Packed out({}, tensor, Use::Out);
      read(out.data(), header.bytes);
      out.unpack();
    });
    return true;
  }
  std::vector<std::byte> data;
  try {
    data.resize(header.bytes);
    read(data.data(), data.size());
  } catch (...) {
    if (taken) posted.work->complete(as_torch_error(facts_->timeout()));
    throw;
  }
  lock.lock();
  if (!taken && !take(source, header.tag, posted)) {
    kept_.push_back({source, header.tag, std::move(data)});
    return true;
  }
  lock.unlock();
  deliver(posted, source, data);
  return true;
}

void PointToPoint::fail_posted(int source, const std::exception_ptr& error, bool final) {
  std::list<Posted> failed;
  {
    const std::lock_guard lock(mutex_);
    from_[static_cast<size_t>(source)]->left = true;
    int left = 0;
    for (const auto& channel : from_) left += channel && channel->left;
    const bool any = final || left == ranks_ - 1;
    for (auto it = posted_.begin(); it != posted_.end();) {
      const auto next = std::next(it);
      if (it->source == source || (any && it->source == kAnySource)) failed.splice(failed.end(), posted_, it);
      it = next;
    }
  }
  for (auto& posted : failed) posted.work->complete(error);
}

void PointToPoint::abort() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto* channels : {&to_, &from_}) {
    for (const auto& channel : *channels) {
      if (channel && channel->comm != nullptr) tuttiCommAbort(channel->comm);
    }
  }
}

void PointToPoint::end_sending(int peer) {
  Channel& to = *to_[static_cast<size_t>(peer)];
  to.queue.launch([comm = to.comm] {
    const Header last{kNoMore, 0};
    tuttiSend(&last, sizeof last, tuttiUint8, 1, comm, nullptr);  // a receiver that has failed needs it no more
  });
}

void PointToPoint::read_to_the_end(int source) {
  Channel& from = *from_[static_cast<size_t>(source)];
  from.queue.launch([this, source, comm = from.comm] {
    try {
      while (receive(source, comm)) continue;
    } catch (...) {  // it has failed: no more comes
    }
  });
}

void PointToPoint::wait_for_ends() {
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& to = to_[static_cast<size_t>(peer)];
    const auto& from = from_[static_cast<size_t>(peer)];
    bool sends = false, receives = false;
    {
      const std::lock_guard lock(mutex_);
      sends = to && to->comm != nullptr;
      receives = from && from->comm != nullptr;
    }
    if (sends) end_sending(peer);
    if (receives) read_to_the_end(peer);
  }
  const auto idle = [](const std::unique_ptr<Channel>& channel) { return !channel || channel->queue.idle(); };
  const auto ended = [&] {
    return std::all_of(to_.begin(), to_.end(), idle) && std::all_of(from_.begin(), from_.end(), idle);
  };
  const auto deadline = std::chrono::steady_clock::now() + facts_->timeout();
  tuttiResult_t state = tuttiSuccess;
  while (!ended() && state == tuttiSuccess && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tuttiCommGetAsyncError(group_, &state);
  }
}

std::string PointToPoint::close() {
  for (const auto& channel : to_) {
    if (channel) channel->queue.drain();
  }
  bool open = true;
  {
    const std::lock_guard lock(mutex_);
    open = !std::exchange(closed_, true);
  }
  if (open) wait_for_ends();
  {
    const std::lock_guard lock(mutex_);
    for (auto* channels : {&to_, &from_}) {  // one that is not idle waits for what may never come
      for (const auto& channel : *channels) {
        if (channel && channel->comm != nullptr && !channel->queue.idle()) tuttiCommAbort(channel->comm);
      }
    }
  }
  for (auto* channels : {&from_, &to_}) {
    for (auto& channel : *channels) {
      if (!channel) continue;
      channel->queue.drain();
      if (channel->comm != nullptr) tuttiCommDestroy(std::exchange(channel->comm, nullptr));
    }
  }
  return open ? unreceived() : "";
}

std::string PointToPoint::unreceived() const {
  std::string text;
  for (const Kept& message : kept_) {
    text += c10::str(text.empty() ? "" : ", ", message.data.size(), " bytes of rank ", message.source, " (tag ",
                     message.tag, ")");
  }
  return text.empty() ? "" : c10::str("rank ", rank_, ": messages in ", facts_->name, " were never received: ", text);
}

}  // namespace tutti_torch
