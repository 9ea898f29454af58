#include "exec/cuda/window_parts.hpp"

#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "transports/cuda/neighbours.hpp"
#include "transports/pod_text.hpp"

namespace tutti::exec::cuda {
namespace {

using transports::pack;
using transports::printable_reply;
using transports::unpack;
using transports::Wireup;
using tutti::cuda::BufferPiece;
using tutti::cuda::BufferShape;
using tutti::cuda::check;
using tutti::cuda::Device;
using tutti::cuda::driver;
using tutti::cuda::MappedBuffer;
using tutti::cuda::Neighbours;
using tutti::cuda::OwnBuffer;
using tutti::cuda::PeerMemory;
using tutti::cuda::Share;
using tutti::cuda::WithContext;

constexpr const char* kService = "cuda-window";
constexpr uint64_t kMagic = 0x316e6977'63697474;  // "ttcwin1"

/// OwnPart::text().
struct PartText {
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  uint64_t offset = 0;  ///< in the buffer, which is whole allocations
  uint64_t buffer_address = 0, buffer_bytes = 0, pieces = 0, has_handles = 0;
};

enum class Wanted : uint64_t { Words, Piece };
struct Request {
  uint64_t window = 0;
  Wanted what = Wanted::Words;
  uint64_t piece = 0;
};
/// Any other answer is a refusal: text for the user.
struct WordsAnswer {
  uint64_t magic = kMagic;
  Share share;
};
struct PieceAnswer {
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  uint64_t has_handle = 0;
  CUipcMemHandle handle{};
};

CUdeviceptr address(const PeerMemory& memory) { return reinterpret_cast<CUdeviceptr>(memory.base()); }

uint64_t bytes_of_lines(Rank ranks) { return static_cast<uint64_t>(ranks) * sizeof(WindowLine); }

/// Asks a peer in another process. `fd`: what came along.
template <class Answer>
Answer ask(Wireup& wireup, Rank peer, const Request& request, Deadline deadline, Fd& fd) {
  Wireup::Reply reply = wireup.ask(peer, kService, pack(request), deadline);
  Answer answer;
  if (!unpack(reply.bytes, answer) || answer.magic != kMagic) {
    throw_error(Code::Unsupported, "rank {} does not give its part: {}", peer, printable_reply(reply.bytes));
  }
  fd = std::move(reply.fd);
  return answer;
}

/// Between GPUs of this process.
PeerPart reach_thread(const Device& device, std::shared_ptr<OwnPart> part, Rank me) {
  const Device& other = part->device();
  if (!device.reaches(other)) {
    throw_error(Code::Unsupported, "{} cannot reach the memory of {}", device.name(), other.name());
  }
  if (&other != &device) part->open_to(device);
  PeerPart made;
  made.memory = part->memory();
  made.bytes = part->bytes();
  made.line = &part->line(me);
  made.line_at = part->line_at(me);
  made.thread = std::move(part);
  return made;
}

PeerPart reach_process(Wireup& wireup, const Device& device, uint64_t window, Rank peer, const PartText& text,
                       Deadline deadline) {
  const std::string whose = fmt::format("rank {}", peer);
  PeerPart made;
  Fd fd;
  const auto words = ask<WordsAnswer>(wireup, peer, {.window = window}, deadline, fd);
  made.words = PeerMemory::import(device, words.share, std::move(fd), whose);
  if (made.words->on_host() == nullptr || words.share.bytes < bytes_of_lines(wireup.ranks())) {
    throw_error(Code::ProtocolError, "{} states words of {} bytes", whose, words.share.bytes);
  }
  const auto me = static_cast<uint64_t>(wireup.rank());
  made.line = reinterpret_cast<WindowLine*>(made.words->on_host()) + me;
  made.line_at = address(*made.words) + me * sizeof(WindowLine);
  made.bytes = text.bytes;
  if (text.bytes == 0) return made;
  if (text.offset > text.buffer_bytes || text.bytes > text.buffer_bytes - text.offset) {
    throw_error(Code::ProtocolError, "{} states {} bytes at byte {} of {}", whose, text.bytes, text.offset,
                text.buffer_bytes);
  }
  const BufferShape shape{.address = text.buffer_address,
                          .bytes = text.buffer_bytes,
                          .pieces = text.pieces,
                          .has_handles = text.has_handles != 0};
  const auto piece = [&](uint64_t number) {
    Fd of;
    const auto answer =
        ask<PieceAnswer>(wireup, peer, {.window = window, .what = Wanted::Piece, .piece = number}, deadline, of);
    BufferPiece one{.bytes = answer.bytes, .handle = "", .fd = std::move(of)};
    if (answer.has_handle != 0) one.handle.assign(reinterpret_cast<const char*>(&answer.handle), sizeof answer.handle);
    return one;
  };
  made.buffer = std::make_shared<MappedBuffer>(device, shape, piece, whose);
  made.memory = reinterpret_cast<CUdeviceptr>(made.buffer->region().base) + text.offset;
  return made;
}

}  // namespace

OwnPart::OwnPart(const Device& device, void* memory, uint64_t bytes, Rank ranks, bool for_processes)
    : device_(device),
      memory_(reinterpret_cast<CUdeviceptr>(memory)),
      bytes_(bytes),
      ranks_(ranks),
      words_(PeerMemory::create_on_host(device, bytes_of_lines(ranks))) {
  if (bytes == 0) return;
  buffer_ = std::make_unique<OwnBuffer>(device, memory, bytes);
  if (for_processes) (void)buffer_->piece(0);  // throws if it has no descriptor
}

CUdeviceptr OwnPart::line_at(Rank of) const {
  return address(*words_) + static_cast<uint64_t>(of) * sizeof(WindowLine);
}

/// Memory that was mapped is granted, memory that was allocated is reached with all else of the GPU.
void OwnPart::open_to(const Device& other) const {
  if (buffer_ == nullptr) return;
  buffer_->open_to(other);
  const WithContext with(other.context());
  const CUresult result = driver().cuCtxEnablePeerAccess(device_.context(), 0);
  if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(result, "memory of another GPU");
}

std::string OwnPart::text() const {
  PartText text{.bytes = bytes_};
  if (buffer_ != nullptr) {
    const BufferShape& shape = buffer_->shape();
    text.offset = memory_ - shape.address;
    text.buffer_address = shape.address;
    text.buffer_bytes = shape.bytes;
    text.pieces = shape.pieces;
    text.has_handles = shape.has_handles ? 1 : 0;
  }
  return pack(text);
}

Wireup::Reply OwnPart::words() const {
  WordsAnswer answer;
  answer.share = words_->share();
  return {pack(answer), words_->share_fd()};
}

Wireup::Reply OwnPart::piece(uint64_t number) const {
  if (buffer_ == nullptr) return {"its part is empty", Fd()};
  BufferPiece piece = buffer_->piece(number);
  PieceAnswer answer{.bytes = piece.bytes, .has_handle = piece.handle.empty() ? 0U : 1U};
  if (piece.handle.size() == sizeof answer.handle)
    std::memcpy(&answer.handle, piece.handle.data(), piece.handle.size());
  return {pack(answer), std::move(piece.fd)};
}

std::shared_ptr<ServedParts> ServedParts::serve(Wireup& wireup) {
  auto parts = std::make_shared<ServedParts>();
  wireup.serve(kService, [parts](Rank, const std::string& request) { return parts->answer(request); });
  return parts;
}

void ServedParts::add(uint64_t window, const std::shared_ptr<OwnPart>& part) {
  const std::lock_guard lock(mutex_);
  parts_[window] = part;
}

void ServedParts::remove(uint64_t window) {
  const std::lock_guard lock(mutex_);
  parts_.erase(window);
}

Wireup::Reply ServedParts::answer(const std::string& bytes) {
  Request request;
  if (!unpack(bytes, request)) return {"the request is invalid", Fd()};
  std::shared_ptr<OwnPart> part;
  {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(request.window);
    if (found == parts_.end()) return {"it has no such window", Fd()};
    part = found->second;
  }
  try {
    return request.what == Wanted::Piece ? part->piece(request.piece) : part->words();
  } catch (const std::exception& error) {
    return {error.what(), Fd()};
  }
}

std::string part_name(const Wireup& wireup, uint64_t window) { return fmt::format("{}/{}", wireup.name(), window); }

PeerPart reach_part(Wireup& wireup, const Device& device, uint64_t window, Rank peer, const std::string& text,
                    Deadline deadline) {
  PartText part;
  if (!unpack(text, part) || part.magic != kMagic) {
    throw_error(Code::ProtocolError, "rank {} states a part that is none of a GPU", peer);
  }
  const transports::ProcessId &there = wireup.process_id(peer), &here = wireup.process_id(wireup.rank());
  if (there.host != here.host) {
    PeerPart far;
    far.memory = part.buffer_address + part.offset;
    far.bytes = part.bytes;
    far.is_far = true;
    return far;
  }
  if (there != here) {
    return reach_process(wireup, device, window, peer, part, deadline);
  }
  auto thread = Neighbours<OwnPart>::instance().find({part_name(wireup, window), peer});
  if (thread == nullptr) throw_error(Code::PeerFailed, "rank {} has left", peer);
  return reach_thread(device, std::move(thread), wireup.rank());
}

}  // namespace tutti::exec::cuda
