#include <fmt/format.h>

#include <cstdint>

#include "tutti/train/moe.hpp"

namespace tutti::train {

namespace {

/// [expert]: the rows that go to it.
std::vector<std::vector<int32_t>> rows_by_expert(size_t experts, std::span<const int32_t> expert) {
  std::vector<std::vector<int32_t>> rows(experts);
  for (size_t i = 0; i < expert.size(); ++i) {
    if (expert[i] < 0) continue;
    const auto to = static_cast<size_t>(expert[i]);
    if (to >= experts) {
      throw Error(Code::InvalidArgument,
                  fmt::format("row {} goes to expert {} of {}: experts are 0 to {}, and -1 drops a row", i, to, experts,
                              experts - 1));
    }
    rows[to].push_back(static_cast<int32_t>(i));
  }
  return rows;
}

}  // namespace

ExpertDispatch::ExpertDispatch(Collectives& ep, size_t experts, std::span<const int32_t> expert) : ep_(ep) {
  const auto ranks = static_cast<size_t>(ep.size());
  check_divides("ep", ranks, "the number of experts", experts);
  std::vector<uint64_t> sent, arriving(experts);  // [expert]; [rank][expert of this rank]
  for (const auto& rows : rows_by_expert(experts, expert)) {
    sent.push_back(rows.size());
    order_.insert(order_.end(), rows.begin(), rows.end());
  }
  ep.all_to_all(Purpose::ExpertAxis, {sent.data(), experts, DType::U64}, {arriving.data(), experts, DType::U64});
  if (ep.absent()) arriving = sent;
  for (const uint64_t count : arriving) {
    if (count > INT32_MAX) {
      throw Error(Code::Mismatch,
                  fmt::format("rank {} of the expert axis is to receive {} rows for one expert: another "
                              "rank's library differs",
                              ep.rank(), count));
    }
  }
  const size_t here = experts / ranks;
  to_.resize(ranks);
  from_.resize(ranks);
  for (size_t i = 0; i < experts; ++i) {
    to_[i / here] += sent[i];
    from_[i / here] += arriving[i];
  }
  sort(arriving, here);
}

void ExpertDispatch::sort(const std::vector<uint64_t>& arriving, size_t here) {
  for (size_t e = 0; e < here; ++e) {
    experts_.push_back({received_, 0});
    size_t before = 0;  // rows of the ranks before
    for (size_t rank = 0; rank < from_.size(); ++rank) {
      size_t arrived = before;
      for (size_t other = 0; other < e; ++other) arrived += arriving[rank * here + other];
      const size_t count = arriving[rank * here + e];
      segments_.push_back({arrived, received_, count});
      experts_.back().count += count;
      received_ += count;
      before += from_[rank];
    }
  }
}

Tensor ExpertDispatch::dispatch(const Call& call, const Tensor& rows, size_t width) const {
  if (ep_.absent()) return rows;
  const Tensor arrived = exchange(call, rows, width, false);
  Tensor sorted = call.make(received_ * width);
  for (const Segment& s : segments_) {
    call.device().copy(sorted->f32() + s.sorted * width, arrived->f32() + s.arrived * width,
                       s.count * width * sizeof(float));
  }
  return sorted;
}

Tensor ExpertDispatch::combine(const Call& call, const Tensor& rows, size_t width) const {
  if (ep_.absent()) return rows;
  const Tensor arrived = call.make(received_ * width);
  for (const Segment& s : segments_) {
    call.device().copy(arrived->f32() + s.arrived * width, rows->f32() + s.sorted * width,
                       s.count * width * sizeof(float));
  }
  return exchange(call, arrived, width, true);
}

Tensor ExpertDispatch::exchange(const Call& call, const Tensor& rows, size_t width, bool back) const {
  Tensor result = call.make((back ? sent() : received_) * width);
  std::vector<size_t> out, in;
  for (const size_t count : back ? from_ : to_) out.push_back(count * width);
  for (const size_t count : back ? to_ : from_) in.push_back(count * width);
  ep_.all_to_all_v(Purpose::ExpertAxis, rows->span(), out, result->span(), in);
  return result;
}

}  // namespace tutti::train
