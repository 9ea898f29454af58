// All-reduce of sparse tensors (COO): every rank gathers the indices and values of all, and sums those of one place.
#include <algorithm>
#include <array>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/group.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

using c10d::OpType;
using tutti::check;

constexpr size_t kMaxDimensions = 64;  // that PyTorch allows

/// What a rank's tensor is; ranks may differ in the number of values alone.
struct Shape {
  int64_t values;
  int64_t sparse, dense;  ///< dimensions
  std::array<int64_t, kMaxDimensions> sizes;

  c10::IntArrayRef dimensions() const { return {sizes.data(), static_cast<size_t>(sparse + dense)}; }
  bool fits(const Shape& other) const {
    return values >= 0 && sparse == other.sparse && dense == other.dense && sizes == other.sizes;
  }
  std::string text() const { return c10::str(dimensions(), " (", sparse, " sparse dimensions)"); }
};

Shape shape_of(const at::Tensor& tensor) {
  Shape shape{tensor._nnz(), tensor.sparse_dim(), tensor.dense_dim(), {}};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.sizes.begin());
  return shape;
}

std::vector<Shape> gathered(const Shape& mine, int ranks, const Target& at) {
  std::vector<Shape> all(static_cast<size_t>(ranks));
  check(tuttiAllGather(&mine, all.data(), sizeof mine / sizeof(int64_t), tuttiInt64, at.comm, at.stream));
  return all;
}

/// The rows of all ranks, one after the other; a rank has shapes[rank].values of them.
at::Tensor gathered(const at::Tensor& rows, const std::vector<Shape>& shapes, const Target& at) {
  int64_t all = 0;
  std::vector<size_t> counts;
  const Elements elements = moved(rows.scalar_type());
  const size_t row = static_cast<size_t>(c10::multiply_integers(rows.sizes().slice(1))) * elements.units;
  for (const Shape& shape : shapes) {
    counts.push_back(static_cast<size_t>(shape.values) * row);
    all += shape.values;
  }
  auto sizes = rows.sizes().vec();
  sizes.front() = all;
  at::Tensor result = at::empty(sizes, rows.options());
  const Packed in(at, rows, Use::In);
  check(tuttiAllGatherV(in.data(), in.count(elements), result.data_ptr(), counts.data(), nullptr, elements.type,
                        at.comm, at.stream));
  return result;
}

/// As tuttiAvg: integers are rounded towards zero.
void divide(at::Tensor& sum, int ranks) {
  if (c10::isIntegralType(sum.scalar_type(), true)) {
    sum.div_(ranks, "trunc");
  } else {
    sum.div_(ranks);
  }
}

at::Tensor sum_of_all(const at::Tensor& mine, const std::vector<Shape>& shapes, const Target& at) {
  const at::Tensor indices = gathered(mine._indices().t(), shapes, at), values = gathered(mine._values(), shapes, at);
  return at::sparse_coo_tensor(indices.t(), values, shapes.front().dimensions()).coalesce();
}

}  // namespace

WorkPtr Group::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  constexpr auto kCall = "all_reduce";
  const at::Tensor tensor = only(kCall, tensors);
  demand(tensor.is_sparse(), kCall, "unsupported layout: this one takes sparse COO tensors");
  check_tensor(kCall, tensor._values());
  demand(tensor.is_cpu(), kCall, "sparse tensors on GPUs are not supported: call to_dense() first");
  // torch.distributed gives views of complex tensors as real ones, and the values of a sparse view cannot be replaced.
  demand(!tensor.is_view() || !tensor._base().is_complex(), kCall,
         "sparse complex tensors are not supported: reduce torch.real(tensor) and torch.imag(tensor)");
  const auto op = static_cast<c10d::ReduceOp::RedOpType>(opts.reduceOp);
  demand(op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG, kCall,
         "unsupported reduction operation: sparse tensors have ReduceOp.SUM and AVG");
  return run(
      OpType::ALLREDUCE, "tutti:sparse_all_reduce", tensors, tensors, opts, [this, tensor, op](const Target& at) {
        const at::Tensor mine = tensor.coalesce();
        const Shape shape = shape_of(mine);
        const auto shapes = gathered(shape, getSize(), at);
        for (size_t rank = 0; rank < shapes.size(); ++rank) {
          if (shapes[rank].fits(shape)) continue;
          throw tutti::Error(tutti::Code::InvalidArgument,
                             c10::str("rank ", getRank(), ": all_reduce of a sparse tensor of sizes ", shape.text(),
                                      " met one of rank ", rank, " of sizes ", shapes[rank].text()));
        }
        at::Tensor sum = sum_of_all(mine, shapes, at);
        if (op == c10d::ReduceOp::AVG) divide(sum, getSize());
        copy_into(tensor, sum);
      });
}

}  // namespace tutti_torch
