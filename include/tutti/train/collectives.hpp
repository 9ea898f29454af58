// Collectives on spans that count what they send, by purpose. All of the layer's communication goes through here.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tutti/train/device.hpp"

namespace tutti::train {

/// What a collective is for. The names of the counters.
enum class Purpose : uint8_t {
  Setup,
  Gradients,
  Parameters,
  Norm,
  Loss,
  TensorAxis,
  SequenceAxis,
  ContextAxis,
  ExpertAxis,
  PipelineAxis
};
inline constexpr int kPurposes = 10;
const char* name_of(Purpose purpose);

/// What one rank's calls for one purpose have moved. Bytes are by a bandwidth-optimal algorithm's formula: n ranks, S
/// bytes: all-reduce 2(n−1)/n · S; reduce-scatter, all-gather, all-to-all (n−1)/n · S of the whole buffer; broadcast
/// and reduce S (a chain: each rank sends at most once); send and recv S.
struct Count {
  uint64_t calls = 0;
  uint64_t elements = 0;  ///< of the whole buffer that the collective divides among ranks, or of the message
  double sent = 0;        ///< bytes
  double received = 0;    ///< bytes
  double waited = 0;      ///< seconds in which the rank waited for calls to end
};

/// What a call carries, for a trace; −1: it does not belong to one.
struct Cargo {
  int unit = -1, bucket = -1, chunk = -1, micro_batch = -1;
  bool empty() const { return unit < 0 && bucket < 0 && chunk < 0 && micro_batch < 0; }
  Cargo or_else(const Cargo& other) const { return empty() ? other : *this; }
};

class StepRecorder;  // recorder.hpp

class Counters {
 public:
  /// Not null: learns of all calls and waits.
  std::shared_ptr<StepRecorder> recorder;

  Count& operator[](Purpose purpose) { return counts_[static_cast<size_t>(purpose)]; }
  const Count& operator[](Purpose purpose) const { return counts_[static_cast<size_t>(purpose)]; }
  void reset() { counts_ = {}; }
  /// Seconds, over all purposes.
  double waited() const;

 private:
  std::array<Count, kPurposes> counts_{};
};

/// One communicator of the mesh, as one rank uses it. Of size 1 it moves nothing and counts nothing. Calls as in
/// tutti.hpp; with a stream they run later, and their spans must last until then.
class Collectives {
 public:
  /// The absent communicator: size 1.
  Collectives() = default;
  /// `name`: what traces call it.
  Collectives(Communicator comm, Counters& counters, const char* name = "ranks");

  const char* name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool absent() const { return size_ == 1; }
  /// Bytes that this rank's calls have sent: as Count::sent says, and by the plans that ran, which are another
  /// algorithm's if the selector chose one. The second waits for calls on streams.
  double sent_by_formula() const { return formula_; }
  uint64_t sent() const { return absent() ? 0 : comm_->sent_bytes(); }
  /// Throws Error(InvalidUsage) if absent.
  Communicator& communicator();

  void all_reduce(Purpose purpose, Span data, Op op, tuttiStream_t stream = nullptr);
  /// `all` has n times the elements of `mine`. In place if `mine` is its block of `all`.
  void all_gather(Purpose purpose, Span mine, Span all, tuttiStream_t stream = nullptr);
  void reduce_scatter(Purpose purpose, Span all, Span mine, Op op, tuttiStream_t stream = nullptr);
  /// Blocks of different lengths: counts[r] elements of rank r, one after another.
  void all_gather_v(Purpose purpose, Span mine, Span all, std::span<const size_t> counts,
                    tuttiStream_t stream = nullptr);
  void reduce_scatter_v(Purpose purpose, Span all, Span mine, std::span<const size_t> counts, Op op,
                        tuttiStream_t stream = nullptr);
  void all_to_all(Purpose purpose, Span in, Span out, tuttiStream_t stream = nullptr);
  void all_to_all_v(Purpose purpose, Span in, std::span<const size_t> in_counts, Span out,
                    std::span<const size_t> out_counts, tuttiStream_t stream = nullptr);
  void broadcast(Purpose purpose, Span data, int root, tuttiStream_t stream = nullptr);
  void send(Purpose purpose, Span data, int peer, tuttiStream_t stream = nullptr);
  void recv(Purpose purpose, Span data, int peer, tuttiStream_t stream = nullptr);
  /// A message to one rank and one from another, for each of `pairs` (out, in): together, so that no order matters.
  void send_and_recv(Purpose purpose, std::span<const std::pair<Span, Span>> pairs, int to, int from,
                     tuttiStream_t stream);
  /// From `start` to `end`, in seconds of the steady clock, the rank has waited for calls on a stream.
  void waited(Purpose purpose, double start, double end) {
    if (absent()) return;
    (*counters_)[purpose].waited += end - start;
    if (counters_->recorder) note_wait(purpose, start, end);
  }
  /// What the next call carries.
  void carries(const Cargo& cargo) const {
    if (!absent() && counters_->recorder) note_cargo(cargo);
  }
  /// A sum of host values, on all ranks. Blocks.
  double sum(Purpose purpose, double value);

 private:
  class Counted;
  double others() const { return static_cast<double>(size_ - 1) / size_; }
  tuttiComm_t handle() const { return comm_->handle(); }
  void note_wait(Purpose purpose, double start, double end) const;
  void note_cargo(const Cargo& cargo) const;
  std::optional<Communicator> comm_;
  Counters* counters_ = nullptr;
  const char* name_ = "";
  double formula_ = 0;  // sent
  int rank_ = 0, size_ = 1;
};

}  // namespace tutti::train
