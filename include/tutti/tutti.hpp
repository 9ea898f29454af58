// Tutti for C++20: spans, RAII, exceptions. A thin, header-only cover of tutti.h; its conventions hold here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/error.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti {

/// Throws Error with the library's words unless `result` is tuttiSuccess.
inline void check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw Error(static_cast<Code>(result), tuttiGetLastError());
}

/// The element type of a C++ type: see the concept Element. For 16- and 8-bit floats use the C calls on `handle()`.
template <class T>
struct ElementType;
template <>
struct ElementType<int8_t> {
  static constexpr DType kType = DType::I8;
};
template <>
struct ElementType<uint8_t> {
  static constexpr DType kType = DType::U8;
};
template <>
struct ElementType<std::byte> {
  static constexpr DType kType = DType::U8;
};
template <>
struct ElementType<int32_t> {
  static constexpr DType kType = DType::I32;
};
template <>
struct ElementType<uint32_t> {
  static constexpr DType kType = DType::U32;
};
template <>
struct ElementType<int64_t> {
  static constexpr DType kType = DType::I64;
};
template <>
struct ElementType<uint64_t> {
  static constexpr DType kType = DType::U64;
};
template <>
struct ElementType<float> {
  static constexpr DType kType = DType::F32;
};
template <>
struct ElementType<double> {
  static constexpr DType kType = DType::F64;
};
template <class T>
concept Element = requires {
  ElementType<std::remove_cv_t<T>>::kType;
};

/// A thread that runs calls in order.
class Stream {
 public:
  Stream() { check(tuttiStreamCreate(&stream_)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  }
  /// Waits for all calls made on it; throws the first error among them.
  void synchronize() { check(tuttiStreamSynchronize(stream_)); }
  operator tuttiStream_t() const { return stream_; }  // NOLINT: stands wherever a stream is wanted

 private:
  tuttiStream_t stream_ = nullptr;
};

/// Collects the calls made during its life and runs them together at `end()`.
class Group {
 public:
  Group() { check(tuttiGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Forgets the calls if `end()` was not reached: an exception is passing, and their buffers may be gone already.
  ~Group() {
    if (open_) tuttiGroupDiscard();
  }
  void end() {
    open_ = false;
    check(tuttiGroupEnd());
  }

 private:
  bool open_ = true;
};

/// One rank of a communicator. Buffers are spans; their sizes give the counts, and sizes that do not fit are an Error.
class Communicator {
 public:
  /// As the launcher's environment says; alone where there is no launcher.
  static Communicator from_environment() {
    Communicator made;
    check(tuttiCommInitEnv(&made.comm_));
    return made;
  }
  static tuttiUniqueId unique_id() {
    tuttiUniqueId id;
    check(tuttiGetUniqueId(&id));
    return id;
  }
  Communicator(int ranks, const tuttiUniqueId& id, int rank) { check(tuttiCommInitRank(&comm_, ranks, id, rank)); }
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  /// Leaves without a word about errors; `close()` tells.
  ~Communicator() {
    if (comm_ != nullptr) tuttiCommDestroy(comm_);
  }
  void close() { check(tuttiCommDestroy(std::exchange(comm_, nullptr))); }

  int rank() const {
    int rank = 0;
    check(tuttiCommUserRank(comm_, &rank));
    return rank;
  }
  int size() const {
    int ranks = 0;
    check(tuttiCommCount(comm_, &ranks));
    return ranks;
  }
  tuttiComm_t handle() const { return comm_; }
  void abort() { check(tuttiCommAbort(comm_)); }
  /// Ranks of the same colour, ordered by key; a communicator that is `empty()` for TUTTI_NO_COLOUR.
  Communicator split(int colour, int key) const {
    Communicator made;
    check(tuttiCommSplit(comm_, colour, key, &made.comm_));
    return made;
  }
  bool empty() const { return comm_ == nullptr; }

  // ---- collectives; in.data() == out.data() is in place where tutti.h says so
  template <Element T>
  void all_reduce(std::span<const T> in, std::span<T> out, Op op = Op::Sum, tuttiStream_t stream = nullptr) {
    same(in.size(), out.size(), "all_reduce");
    check(tuttiAllReduce(in.data(), out.data(), in.size(), type<T>(), raw(op), comm_, stream));
  }
  template <Element T>
  void all_reduce(std::span<T> in_place, Op op = Op::Sum, tuttiStream_t stream = nullptr) {
    all_reduce<T>(in_place, in_place, op, stream);
  }
  /// `out` is used at the root only.
  template <Element T>
  void reduce(std::span<const T> in, std::span<T> out, int root, Op op = Op::Sum, tuttiStream_t stream = nullptr) {
    if (rank() == root) same(in.size(), out.size(), "reduce");
    check(tuttiReduce(in.data(), out.data(), in.size(), type<T>(), raw(op), root, comm_, stream));
  }
  template <Element T>
  void broadcast(std::span<T> in_place, int root, tuttiStream_t stream = nullptr) {
    check(tuttiBroadcast(in_place.data(), in_place.data(), in_place.size(), type<T>(), root, comm_, stream));
  }
  template <Element T>
  void all_gather(std::span<const T> in, std::span<T> out, tuttiStream_t stream = nullptr) {
    same(in.size() * static_cast<size_t>(size()), out.size(), "all_gather");
    check(tuttiAllGather(in.data(), out.data(), in.size(), type<T>(), comm_, stream));
  }
  template <Element T>
  void reduce_scatter(std::span<const T> in, std::span<T> out, Op op = Op::Sum, tuttiStream_t stream = nullptr) {
    same(in.size(), out.size() * static_cast<size_t>(size()), "reduce_scatter");
    check(tuttiReduceScatter(in.data(), out.data(), out.size(), type<T>(), raw(op), comm_, stream));
  }
  template <Element T>
  void all_to_all(std::span<const T> in, std::span<T> out, tuttiStream_t stream = nullptr) {
    same(in.size(), out.size(), "all_to_all");
    if (in.size() % static_cast<size_t>(size()) != 0) bad("all_to_all: the buffers are no multiple of the ranks");
    check(tuttiAllToAll(in.data(), out.data(), in.size() / static_cast<size_t>(size()), type<T>(), comm_, stream));
  }
  /// `out` (n·in) is used at the root only.
  template <Element T>
  void gather(std::span<const T> in, std::span<T> out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) same(in.size() * static_cast<size_t>(size()), out.size(), "gather");
    check(tuttiGather(in.data(), out.data(), in.size(), type<T>(), root, comm_, stream));
  }
  /// `in` (n·out) is used at the root only.
  template <Element T>
  void scatter(std::span<const T> in, std::span<T> out, int root, tuttiStream_t stream = nullptr) {
    if (rank() == root) same(in.size(), out.size() * static_cast<size_t>(size()), "scatter");
    check(tuttiScatter(in.data(), out.data(), out.size(), type<T>(), root, comm_, stream));
  }
  void barrier(tuttiStream_t stream = nullptr) { check(tuttiBarrier(comm_, stream)); }
  template <Element T>
  void send(std::span<const T> in, int peer, tuttiStream_t stream = nullptr) {
    check(tuttiSend(in.data(), in.size(), type<T>(), peer, comm_, stream));
  }
  template <Element T>
  void recv(std::span<T> out, int peer, tuttiStream_t stream = nullptr) {
    check(tuttiRecv(out.data(), out.size(), type<T>(), peer, comm_, stream));
  }

 private:
  Communicator() = default;
  template <class T>
  static constexpr tuttiDataType_t type() {
    return static_cast<tuttiDataType_t>(ElementType<std::remove_cv_t<T>>::kType);
  }
  static constexpr tuttiRedOp_t raw(Op op) { return static_cast<tuttiRedOp_t>(op); }
  [[noreturn]] static void bad(const std::string& text) { throw Error(Code::InvalidArgument, text); }
  static void same(size_t a, size_t b, const char* call) {
    if (a != b)
      bad(std::string(call) + ": the sizes of input and output do not fit (" + std::to_string(a) + " and " +
          std::to_string(b) + " elements)");
  }

  tuttiComm_t comm_ = nullptr;
};

}  // namespace tutti
