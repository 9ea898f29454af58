// Words of memory that a stream waits for, and writes.
#include <atomic>
#include <type_traits>

#include "api.hpp"

namespace fake {
namespace {

constexpr unsigned kMaxInABatch = 255;

bool has_long_words(int device) { return !config().fails("no_64_bit", device); }

template <class Word>
bool satisfied(Word now, Word value, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<Word>(~(now | value)) != 0;
    default:  // GEQ, in a circle
      return static_cast<std::make_signed_t<Word>>(now - value) >= 0;
  }
}

// Memory may be gone when the work runs.
void open_word(CUdeviceptr at, size_t bytes) {
  require(memory().find(at) != nullptr, CUDA_ERROR_ILLEGAL_ADDRESS);
  memory().open(at, bytes);
}

template <class Word>
std::function<bool()> wait_value(CUdeviceptr at, Word value, unsigned flags) {
  return [=] {
    open_word(at, sizeof(Word));
    auto* const word = reinterpret_cast<Word*>(at);
    if (!satisfied(std::atomic_ref<Word>(*word).load(std::memory_order_acquire), value, flags)) return false;
    follow(word);
    return true;
  };
}

template <class Word>
std::function<bool()> write_value(CUdeviceptr at, Word value) {
  return [=] {
    open_word(at, sizeof(Word));
    precede(reinterpret_cast<Word*>(at));
    std::atomic_ref<Word>(*reinterpret_cast<Word*>(at)).store(value, std::memory_order_release);
    return true;
  };
}

void check_wait(int device, unsigned flags) {
  require((flags & ~(3U | CU_STREAM_WAIT_VALUE_FLUSH)) == 0, CUDA_ERROR_INVALID_VALUE);
  const bool flushes = (flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0;
  require(!flushes || !config().fails("no_flush", device), CUDA_ERROR_NOT_SUPPORTED);
}

void check_word(CUdeviceptr at, size_t bytes, int device) {
  require(bytes == 4 || has_long_words(device), CUDA_ERROR_NOT_SUPPORTED);
  const Mapping* const mapping = memory().find(at);
  require(mapping != nullptr && mapping->holds(at, bytes) && at % bytes == 0, CUDA_ERROR_INVALID_VALUE);
}

void submit_word(Call& one, CUstream handle, CUdeviceptr at, size_t bytes, const std::function<bool()>& turn,
                 unsigned wait_flags = 0) {
  Stream& stream = stream_of(one, handle);
  check_word(at, bytes, stream.context->device);
  check_wait(stream.context->device, wait_flags);
  submit(one, stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [turn] { return turn; });
}

std::function<bool()> turn_of(const CUstreamBatchMemOpParams& operation, int device) {
  const auto& wait = operation.waitValue;
  const auto& write = operation.writeValue;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      check_word(wait.address, 4, device);
      check_wait(device, wait.flags);
      return wait_value<uint32_t>(wait.address, wait.value, wait.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      check_word(wait.address, 8, device);
      check_wait(device, wait.flags);
      return wait_value<uint64_t>(wait.address, wait.value64, wait.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      check_word(write.address, 4, device);
      return write_value<uint32_t>(write.address, write.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      check_word(write.address, 8, device);
      return write_value<uint64_t>(write.address, write.value64);
    default:
      fail(CUDA_ERROR_NOT_SUPPORTED);
  }
}

/// One after the other.
Maker all_of(const std::vector<std::function<bool()>>& turns) {
  return [turns] {
    return [turns, next = size_t{0}]() mutable {
      while (next < turns.size() && turns[next]()) ++next;
      return next == turns.size();
    };
  };
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  return call("cuStreamWaitValue32", kContext,
              [&](Call& one) { submit_word(one, stream, at, 4, wait_value<uint32_t>(at, value, flags), flags); });
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags) {
  return call("cuStreamWaitValue64", kContext,
              [&](Call& one) { submit_word(one, stream, at, 8, wait_value<uint64_t>(at, value, flags), flags); });
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  return call("cuStreamWriteValue32", kContext,
              [&](Call& one) { submit_word(one, stream, at, 4, write_value<uint32_t>(at, value)); });
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned) {
  return call("cuStreamWriteValue64", kContext,
              [&](Call& one) { submit_word(one, stream, at, 8, write_value<uint64_t>(at, value)); });
}

CUresult cuStreamBatchMemOp(CUstream handle, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
  return call("cuStreamBatchMemOp", kContext, [&](Call& one) {
    require_pointers(operations);
    require(count > 0 && count <= kMaxInABatch && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Stream& stream = stream_of(one, handle);
    std::vector<std::function<bool()>> turns;
    for (unsigned i = 0; i < count; ++i) {
      turns.push_back(turn_of(operations[i], stream.context->device));
    }
    submit(one, stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, all_of(turns));
  });
}
