// What ranks say of their buffers to each other, and how a peer's is mapped.
#include "transports/cuda/buffer_messages.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "transports/cuda/retired.hpp"

namespace tutti::cuda {
namespace {

constexpr size_t kMaxTasks = 1 << 14;  // far more than ranks offer that wait for answers
// Control threads answer in milliseconds.
constexpr double kAnsweredWithin = 10;  // seconds
constexpr double kHeardWithin = 1;      // by a peer to whom it is of no use

}  // namespace

// ---- what this rank replies

transports::Wireup::Reply SharedBuffers::reply(Rank from, const std::string& bytes) {
  Reply said;
  Fd fd;
  try {
    said = act_on(from, unpack_fields<Request>(bytes), fd);
  } catch (const std::exception& error) {
    said = {.refusal = printable(error.what()).substr(0, kMaxReason)};
  }
  return {pack_fields(said), std::move(fd)};
}

SharedBuffers::Reply SharedBuffers::act_on(Rank from, const Request& request, Fd& fd) {
  if (request.id < link::kFirstUserRegion || request.id >= link::kRegions) {
    throw_error(Code::ProtocolError, "there is no region {}", request.id);
  }
  switch (request.kind) {
    case Request::Kind::Offer:
    case Request::Kind::Withdraw:
      note(from, request);
      return {};
    case Request::Kind::Shape:
      return {.shape = buffer_of(request)->shape()};
    case Request::Kind::Piece: {
      BufferPiece piece = piece_of(request);
      fd = std::move(piece.fd);
      return {.bytes = piece.bytes, .handle = std::move(piece.handle)};
    }
    case Request::Kind::Answer:
      take_answer(from, request);
      return {};
  }
  throw_error(Code::ProtocolError, "the request is invalid");
}

void SharedBuffers::note(Rank from, const Request& request) {
  const bool is_offer = request.kind == Request::Kind::Offer;
  const std::lock_guard lock(mutex_);
  if (is_offer && leaves_) throw_error(Code::Unsupported, "it leaves the communicator");
  if (tasks_.size() > kMaxTasks) throw_error(Code::Unsupported, "too many buffers wait for being mapped");
  tasks_.push_back({is_offer, from, request.id, request.number});
  added_.notify_all();
}

/// Throws Error(InvalidArgument) if it was withdrawn.
std::shared_ptr<OwnBuffer> SharedBuffers::buffer_of(const Request& request) const {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(request.id);
  if (own != own_.end() && own->second.number == request.number && !own->second.is_withdrawn) return own->second.buffer;
  throw_error(Code::InvalidArgument, "the buffer is not registered any more");
}

BufferPiece SharedBuffers::piece_of(const Request& request) const {
  std::shared_ptr<OwnBuffer> buffer = buffer_of(request);
  const auto let_go = [&] { Retired::instance().put(device_, std::move(buffer)); };  // freeing may wait for kernels
  try {
    BufferPiece piece = buffer->piece(request.piece);
    let_go();
    return piece;
  } catch (...) {
    let_go();
    throw;
  }
}

// ---- what it asks

SharedBuffers::Reply SharedBuffers::ask(Rank peer, const Request& request, Deadline deadline, Fd* fd) const {
  if (ends_) throw_error(Code::Unsupported, "this rank leaves the communicator");
  transports::Wireup::Reply reply = wireup_.ask(peer, kBufferService, pack_fields(request), deadline);
  auto said = unpack_fields<Reply>(reply.bytes);
  if (!said.refusal.empty()) throw_error(Code::Unsupported, "rank {}: {}", peer, said.refusal);
  if (fd != nullptr) *fd = std::move(reply.fd);
  return said;
}

void SharedBuffers::tell_withdrawn(uint64_t id, uint64_t number) const {
  for (const Peer& peer : around_.peers) {
    try {
      ask(peer.rank, {.kind = Request::Kind::Withdraw, .id = id, .number = number}, Deadline::in(kHeardWithin));
    } catch (const std::exception& error) {  // it has failed, or left
      log_debug("rank {}: rank {} keeps a buffer mapped: {}", wireup_.rank(), peer.rank, error.what());
    }
  }
}

/// By the thread.
void SharedBuffers::perform(const Task& task) {
  const Whose whose{task.peer, task.id};
  const auto known = theirs_.find(whose);
  if (known != theirs_.end() && (task.maps || known->second.number == task.number)) withdraw_theirs(whose);
  const auto leaving = leaving_.find(whose);
  if (leaving == leaving_.end()) {
    if (task.maps) map_and_answer(task);
  } else if (task.maps) {
    leaving->second.then = task;
  } else if (leaving->second.then && leaving->second.then->number == task.number) {
    leaving->second.then.reset();
  }
}

void SharedBuffers::map_and_answer(const Task& task) {
  Request answer{.kind = Request::Kind::Answer, .id = task.id, .number = task.number};
  try {
    around_.set_region(task.peer, task.id, map(task));
  } catch (const std::exception& error) {
    theirs_.erase({task.peer, task.id});
    answer.why_not = printable(error.what()).substr(0, kMaxReason);
  }
  try {
    ask(task.peer, answer, Deadline::in(kAnsweredWithin));
  } catch (const std::exception& error) {  // the peer has failed, which others find too
    log_debug("rank {}: rank {} is not told of its buffer: {}", wireup_.rank(), task.peer, error.what());
  }
}

link::MappedRegion SharedBuffers::map(const Task& task) {
  const auto is_it = [&](const Peer& peer) { return peer.rank == task.peer; };
  const auto peer = std::find_if(around_.peers.begin(), around_.peers.end(), is_it);
  if (peer == around_.peers.end()) throw_error(Code::ProtocolError, "rank {} is not of this host", task.peer);
  Theirs& theirs = theirs_[{task.peer, task.id}] = {.number = task.number};
  const auto ask_owner = [&](Request request, Fd* fd) {
    request.id = task.id, request.number = task.number;
    return ask(task.peer, request, Deadline::in(kAnsweredWithin), fd);
  };
  const BufferShape shape = ask_owner({.kind = Request::Kind::Shape}, nullptr).shape;
  if (peer->device == nullptr) {
    const auto piece = [&](uint64_t number) {
      Fd fd;
      Reply said = ask_owner({.kind = Request::Kind::Piece, .piece = number}, &fd);
      return BufferPiece{said.bytes, std::move(said.handle), std::move(fd)};
    };
    theirs.mapped = std::make_shared<MappedBuffer>(device_, shape, piece, fmt::format("rank {}", task.peer));
    return theirs.mapped->region();
  }
  if (peer->device != &device_) {
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
