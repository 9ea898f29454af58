// Mixture of experts, and expert parallelism: each rank has some of the experts, and tokens travel to theirs and back.
//
//   ExpertDispatch   the two all-to-alls, for any rows and any experts
//   make_moe         a feed-forward layer: router, dispatch, the experts' MLPs, combine
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/parallel.hpp"

namespace tutti::train {

/// Rows on their way to the ranks of their experts and back. Rank r of n has experts [r·E/n, (r+1)·E/n). Two
/// all-to-alls of a rank's counts and rows; the counts are known on the host, as each rank must make room.
class ExpertDispatch {
 public:
  /// Collective over `ep`. expert[i]: to which of `experts` row i goes; −1: to none, the row is dropped. Throws
  /// Error(InvalidArgument) unless ep's size divides `experts`.
  ExpertDispatch(Collectives& ep, size_t experts, std::span<const int32_t> expert);
  /// The rows that are sent, in the order in which dispatch takes them: by expert, then by i.
  const std::vector<int32_t>& order() const { return order_; }
  size_t sent() const { return order_.size(); }
  size_t received() const { return received_; }
  /// [expert of this rank]: its rows in what dispatch returns.
  const std::vector<Entries>& experts() const { return experts_; }
  /// From sent() rows in order() to received() rows, expert after expert. Collective.
  Tensor dispatch(const Call& call, const Tensor& rows, size_t width) const;
  /// The way back. Collective.
  Tensor combine(const Call& call, const Tensor& rows, size_t width) const;

 private:
  /// Consecutive rows of one expert from one rank.
  struct Segment {
    size_t arrived, sorted, count;
  };
  /// Where the rows that arrive rank by rank lie, expert by expert. `here`: experts of this rank.
  void sort(const std::vector<uint64_t>& arriving, size_t here);
  Tensor exchange(const Call& call, const Tensor& rows, size_t width, bool back) const;
  Collectives& ep_;
  std::vector<int32_t> order_;
  std::vector<size_t> to_, from_;  // [rank]: rows
  std::vector<Entries> experts_;
  std::vector<Segment> segments_;
  size_t received_ = 0;
};

struct MoeConfig {
  size_t experts = 0;  ///< of a layer, over all ranks; 0: there is a plain MLP instead
  size_t top_k = 2;    ///< experts of a token
  double capacity = 0;  ///< an expert takes at most capacity · tokens · top_k / experts of a rank's; 0: all (drop-less)
  double balance = 0.01;  ///< weight of the load-balance loss
};

/// Throws Error(InvalidArgument), which says what must divide what, unless `ep` ranks can share the experts and `tp`
/// their hidden width.
void check_config(const MoeConfig& config, size_t hidden, size_t ep, size_t tp);

/// How a layer's tokens were spread over its experts, summed over all ranks that share the batch.
struct ExpertLoad {
  std::string name;            ///< of the layer
  size_t block = 0;            ///< that it is part of
  std::vector<double> chosen;  ///< [expert]: how many (token, choice) pairs chose it
  double dropped = 0;          ///< pairs beyond the capacity
  double balance = 0;          ///< load-balance loss, summed over calls, without its weight; 1 a call is even
  size_t calls = 0;
  void reset();
  /// One call's pairs of each expert, those beyond the capacity, and its load-balance loss.
  void add(std::span<const double> pairs, double beyond, double loss);
  double pairs() const;
  /// The pairs of the expert that has most, by the mean: 1 is even, the number of experts is the worst.
  double imbalance() const;
};

/// The layer y = Σ over a token's top_k experts of p[e] · expert_e(x), where p is the softmax of x · Rᵀ over the
/// experts and an expert is an MLP without biases. To the model's loss it adds balance · E · Σ_e f[e] · P[e], with f
/// the share of pairs that chose e and P the mean of p[e], both over the ranks of `batch` (Fedus et al., Switch
/// Transformers, JMLR 2022, §2.2). Only the gradient knows of it: the reported loss is the cross-entropy.
///
/// Tensor parallelism divides each expert's hidden width. `batch` and `load` must outlast the layer. Throws
/// Error(InvalidArgument), which says what divides.
std::unique_ptr<Layer> make_moe(Layout& layout, const std::string& prefix, size_t width, size_t hidden,
                                const Deviations& deviations, const MoeConfig& config, const ParallelContext& parallel,
                                Collectives& batch, ExpertLoad& load);

}  // namespace tutti::train
