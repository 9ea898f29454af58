#include "transports/cuda/shared_buffers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/fields.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "transports/cuda/retired.hpp"

namespace tutti::cuda {
namespace {

using transports::Wireup;

constexpr const char* kService = "cuda buffers";
constexpr size_t kMaxWords = 1024;
constexpr size_t kMaxTasks = 1 << 14;                          // far more than ranks offer that wait for answers
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);  // at what may end a wait
constexpr auto kUnheldFor = std::chrono::seconds(1);           // graphs say nothing when they end

enum class Ask : uint8_t { Offer, Shape, Piece, Done, Withdraw };

}  // namespace

struct SharedBuffers::Request {
  Ask ask = Ask::Offer;
  uint64_t id = 0, number = 0;
  uint64_t piece = 0;
  std::string why_not = "";  // of Done
  static void fields(auto& m, auto& v) {
    v.choice(m.ask, Ask::Withdraw);
    v.number(m.id, m.number, m.piece);
    v.words(m.why_not, kMaxWords);
  }
};

struct SharedBuffers::Answer {
  std::string refusal = "";
  BufferShape shape;
  uint64_t bytes = 0;  // of a piece, …
  std::string handle = "";
  static void fields(auto& m, auto& v) {
    v.words(m.refusal, kMaxWords);
    v.number(m.shape.address, m.shape.bytes, m.shape.pieces);
    v.flag(m.shape.has_handles);
    v.number(m.bytes);
    v.text(m.handle, sizeof(CUipcMemHandle));
  }
};

SharedBuffers::SharedBuffers(Wireup& wireup, const Device& device, double seconds)
    : wireup_(wireup), device_(device), seconds_(seconds) {
  wireup_.serve(kService, [this](Rank from, const std::string& request) { return answer(from, request); });
}

SharedBuffers::~SharedBuffers() {
  wireup_.serve(kService, {});
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    added_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (auto& [id, own] : own_) Retired::instance().put(device_, std::move(own.buffer));
  for (auto& [whose, theirs] : theirs_) Retired::instance().put(device_, std::move(theirs.mapped));
}

void SharedBuffers::start(Uses uses) {
  const std::lock_guard lock(mutex_);
  uses_ = std::move(uses);
  started_ = true;
  if (!tasks_.empty()) thread_ = std::thread([this] { work(); });
}

void SharedBuffers::leave() {
  const std::lock_guard lock(mutex_);
  leaves_ = true;
}

// ---- of this rank

link::SharedRegion SharedBuffers::find(const void* data, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, own] : own_) {
    const bool all_have_it = own.unanswered.empty() && own.why_not.empty();
    if (data != nullptr && all_have_it && own.is_found() && own.buffer->holds(data, bytes)) {
      return {id, own.buffer->base()};
    }
  }
  return {};
}

uint64_t SharedBuffers::offer(const void* data, uint64_t bytes, bool by_graph) {
  if (uses_.peers.empty()) return 0;
  auto buffer = std::make_shared<OwnBuffer>(device_, data, bytes);
  const auto is_process = [](const Peer& peer) { return peer.device == nullptr; };
  if (std::any_of(uses_.peers.begin(), uses_.peers.end(), is_process))
    (void)buffer->piece(0);  // throws if it has no descriptor
  Request request{.ask = Ask::Offer, .id = link::kFirstUserRegion};
  {
    const std::lock_guard lock(mutex_);
    const auto is_known = [&](const auto& own) {
      return own.second.held != nullptr && own.second.is_found() && own.second.buffer->holds(data, bytes);
    };
    if (by_graph && std::any_of(own_.begin(), own_.end(), is_known)) return 0;
    while (own_.count(request.id) != 0) ++request.id;
    if (request.id >= link::kRegions) {
      throw_error(Code::Unsupported, "{} buffers are registered, which is the maximum: deregister some", own_.size());
    }
    request.number = ++last_number_;
    Own& own = own_[request.id] = {.buffer = std::move(buffer), .number = request.number};
    for (const Peer& peer : uses_.peers) own.unanswered.insert(peer.rank);
    if (by_graph) own.held = std::make_shared<char>();
  }
  try {
    for (const Peer& peer : uses_.peers) ask(peer.rank, request);
  } catch (...) {
    withdraw(request.number);
    throw;
  }
  return request.number;
}

bool SharedBuffers::wait(uint64_t number, Deadline deadline, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto own = by_number(number);
    if (own == own_.end()) return false;
    if (!own->second.why_not.empty()) {
      withdraw(own->second);
      throw_error(Code::Unsupported, "{}", own->second.why_not);
    }
    if (own->second.unanswered.empty()) return true;
    if (deadline.passed() || stop()) {
      own->second.is_awaited = false;
      return false;
    }
    answered_.wait_for(lock, kBetweenLooks);
  }
}

/// On the control thread, or a peer's in this process.
void SharedBuffers::take_answer(Rank from, const Request& request) {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(request.id);
  if (own == own_.end() || own->second.number != request.number) return;
  own->second.unanswered.erase(from);
  if (!request.why_not.empty() && own->second.why_not.empty()) {
    own->second.why_not = fmt::format("rank {}: {}", from, request.why_not);
    if (!own->second.is_awaited) {
      log_warn("rank {}: a registered buffer is not read in place: {}", wireup_.rank(), own->second.why_not);
      withdraw(own->second);
    }
  }
  if (own->second.unanswered.empty()) uses_.changed();
  answered_.notify_all();
}

std::shared_ptr<void> SharedBuffers::hold(const link::SharedRegion& region) {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(region.id);
  if (own == own_.end() || own->second.held == nullptr) return nullptr;
  own->second.was_held = true;
  return own->second.held;
}

SharedBuffers::Owned::iterator SharedBuffers::by_number(uint64_t number) {
  return std::find_if(own_.begin(), own_.end(), [number](const auto& own) { return own.second.number == number; });
}

void SharedBuffers::withdraw(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto own = by_number(number);
  if (own != own_.end()) withdraw(own->second);
}

void SharedBuffers::withdraw_freed(const void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, own] : own_) {
    if (own.is_found() && own.buffer->holds(data, 1) && own.buffer->was_freed(data, bytes)) withdraw(own);
  }
}

/// The lock is held. Letting go of a buffer may free its memory, which waits for kernels: another thread does it.
void SharedBuffers::withdraw(Own& own) {
  if (own.is_withdrawn) return;
  own.is_withdrawn = true;
  own.used_until = uses_.enqueued();
  Retired::instance().put(device_, std::move(own.buffer));
  uses_.changed();
  answered_.notify_all();
  wake();
}

/// Those of graphs that are gone. A call that was planned before one is not found any more may still come to hold it.
void SharedBuffers::withdraw_unheld() {
  const auto now = Clock::now();
  for (auto& [id, own] : own_) {
    if (own.held == nullptr || !own.was_held || own.held.use_count() > 1 || own.is_withdrawn) continue;
    if (own.is_found()) {
      own.leaves_at = now + kUnheldFor;
      uses_.changed();
    } else if (now >= own.leaves_at) {
      withdraw(own);
    }
  }
}

/// One that no call of this rank uses any more: then no call of a peer does.
SharedBuffers::Owned::iterator SharedBuffers::unused() {
  const uint64_t ended = own_.empty() ? 0 : uses_.ended();
  return std::find_if(own_.begin(), own_.end(),
                      [ended](const auto& own) { return own.second.is_withdrawn && own.second.used_until <= ended; });
}

// ---- what ranks ask each other

Wireup::Reply SharedBuffers::answer(Rank from, const std::string& bytes) {
  Answer answer;
  Fd fd;
  try {
    answer = act_on(from, unpack_fields<Request>(bytes), fd);
  } catch (const std::exception& error) {
    answer.refusal = std::string(error.what()).substr(0, kMaxWords);
  }
  return {pack_fields(answer), std::move(fd)};
}

SharedBuffers::Answer SharedBuffers::act_on(Rank from, const Request& request, Fd& fd) {
  if (request.id < link::kFirstUserRegion || request.id >= link::kRegions) {
    throw_error(Code::ProtocolError, "there is no region {}", request.id);
  }
  switch (request.ask) {
    case Ask::Offer:
    case Ask::Withdraw: {
      const std::lock_guard lock(mutex_);
      if (leaves_) throw_error(Code::Unsupported, "it leaves the communicator");
      if (tasks_.size() > kMaxTasks) throw_error(Code::Unsupported, "too many buffers wait for being mapped");
      const bool is_offer = request.ask == Ask::Offer;
      add({is_offer ? Task::Kind::Map : Task::Kind::Unmap, from, request.id, request.number});
      return {};
    }
    case Ask::Shape:
      return {.shape = buffer_of(request)->shape()};
    case Ask::Piece: {
      BufferPiece piece = buffer_of(request)->piece(request.piece);
      fd = std::move(piece.fd);
      return {.bytes = piece.bytes, .handle = std::move(piece.handle)};
    }
    case Ask::Done:
      take_answer(from, request);
      return {};
  }
  throw_error(Code::ProtocolError, "the request is invalid");
}

/// Throws Error(InvalidArgument) if it was withdrawn.
std::shared_ptr<OwnBuffer> SharedBuffers::buffer_of(const Request& request) const {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(request.id);
  if (own != own_.end() && own->second.number == request.number && !own->second.is_withdrawn) {
    return own->second.buffer;
  }
  throw_error(Code::InvalidArgument, "the buffer is not registered any more");
}

SharedBuffers::Answer SharedBuffers::ask(Rank peer, const Request& request, Fd* fd) const {
  Wireup::Reply reply = wireup_.ask(peer, kService, pack_fields(request), Deadline::in(seconds_));
  auto answer = unpack_fields<Answer>(reply.bytes);
  if (!answer.refusal.empty()) throw_error(Code::Unsupported, "rank {}: {}", peer, answer.refusal);
  if (fd != nullptr) *fd = std::move(reply.fd);
  return answer;
}

// ---- of peers, by the thread

/// The lock is held.
void SharedBuffers::add(const Task& task) {
  tasks_.push_back(task);
  wake();
}

/// The lock is held.
void SharedBuffers::wake() {
  if (started_ && !ends_ && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  added_.notify_all();
}

void SharedBuffers::work() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    withdraw_unheld();
    Task task{};
    const auto gone = unused();
    if (gone != own_.end()) {
      task = {Task::Kind::TellWithdrawn, wireup_.rank(), gone->first, gone->second.number};
      own_.erase(gone);
    } else if (!tasks_.empty()) {
      task = tasks_.front();
      tasks_.pop_front();
    } else {
      sleep(lock);
      continue;
    }
    lock.unlock();
    try {
      perform(task);
    } catch (const std::exception& error) {  // the peer has failed, which others find too
      log_debug("rank {}: registered buffers: {}", wireup_.rank(), error.what());
    }
    lock.lock();
  }
}

/// Until there may be something to do: neither calls nor graphs say when they end.
void SharedBuffers::sleep(std::unique_lock<std::mutex>& lock) {
  const auto any = [this](auto what) { return std::any_of(own_.begin(), own_.end(), what); };
  if (any([](const auto& own) { return own.second.is_withdrawn; })) {
    added_.wait_for(lock, kBetweenLooks);
  } else if (any([](const auto& own) { return own.second.held != nullptr; })) {
    added_.wait_for(lock, kUnheldFor);
  } else {
    added_.wait(lock);
  }
}

void SharedBuffers::perform(const Task& task) {
  switch (task.kind) {
    case Task::Kind::Map:
      return map(task);
    case Task::Kind::Unmap:
      if (theirs_[{task.peer, task.id}].number == task.number) unmap(task);
      return;
    case Task::Kind::TellWithdrawn:
      for (const Peer& peer : uses_.peers) {
        ask(peer.rank, {.ask = Ask::Withdraw, .id = task.id, .number = task.number});
      }
      return;
  }
}

void SharedBuffers::unmap(const Task& task) {
  uses_.enter(task.peer, task.id, {});
  Theirs& theirs = theirs_[{task.peer, task.id}];
  Retired::instance().put(device_, std::move(theirs.mapped));
  theirs = {};
}

void SharedBuffers::map(const Task& task) {
  Request done{.ask = Ask::Done, .id = task.id, .number = task.number};
  try {
    unmap(task);
    Theirs& theirs = theirs_[{task.peer, task.id}];
    theirs.number = task.number;
    const link::MappedRegion region = region_of(task, theirs);
    uses_.enter(task.peer, task.id, region);
  } catch (const std::exception& error) {
    done.why_not = printable(error.what()).substr(0, kMaxWords);
  }
  ask(task.peer, done);
}

link::MappedRegion SharedBuffers::region_of(const Task& task, Theirs& theirs) {
  const auto is_it = [&](const Peer& peer) { return peer.rank == task.peer; };
  const auto peer = std::find_if(uses_.peers.begin(), uses_.peers.end(), is_it);
  if (peer == uses_.peers.end()) throw_error(Code::ProtocolError, "rank {} is not of this host", task.peer);
  const BufferShape shape = ask(task.peer, {.ask = Ask::Shape, .id = task.id, .number = task.number}).shape;
  if (peer->device == nullptr) {
    const auto piece = [&](uint64_t i) {
      Fd fd;
      Answer answer = ask(task.peer, {.ask = Ask::Piece, .id = task.id, .number = task.number, .piece = i}, &fd);
      return BufferPiece{answer.bytes, std::move(answer.handle), std::move(fd)};
    };
    theirs.mapped = std::make_shared<MappedBuffer>(device_, shape, piece, fmt::format("rank {}", task.peer));
    return theirs.mapped->region();
  }
  if (peer->device != &device_ && shape.has_handles) {
    if (!device_.reaches(*peer->device)) {
      throw_error(Code::Unsupported, "{} cannot read the memory of {}", device_.name(), peer->device->name());
    }
    const WithContext with(device_.context());
    const CUresult result = driver().cuCtxEnablePeerAccess(peer->device->context(), 0);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(result, "memory of another GPU");
  }
  return {reinterpret_cast<const unsigned char*>(shape.address), shape.bytes};
}

}  // namespace tutti::cuda
