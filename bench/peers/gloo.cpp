// Ranks of Gloo over TCP on this host.   peer_gloo FOLDER RANKS
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "play.hpp"

namespace {

using peers::Collective;
using peers::Shape;

class GlooPeer {
 public:
  GlooPeer(int rank, int ranks, const std::string& folder)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)) {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }
  int rank() const { return context_->rank; }
  int ranks() const { return context_->size; }
  static float* allocate(size_t count) { return peers::plain_memory(count); }
  static void release(float* memory) { std::free(memory); }
  static void inputs_change(bool) {}

  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  /// Gloo's reduce-scatter is an object for one buffer, and works in place.
  float* prepare(const Shape& shape, float* in, float* out) {
    shape_ = shape;
    in_ = in;
    out_ = out;
    scattering_.reset();
    if (shape.what == Collective::ReduceScatter) {
      const std::vector<int> blocks(static_cast<size_t>(shape.ranks), static_cast<int>(shape.block()));
      scattering_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(context_, std::vector<float*>{in},
                                                                                static_cast<int>(shape.count), blocks);
      return in;
    }
    return shape.what == Collective::Broadcast ? in : out;
  }

  void call() {
    const size_t count = shape_.count, block = shape_.block();
    void (*const sum)(void*, const void*, const void*, size_t) = &gloo::sum<float>;
    switch (shape_.what) {
      case Collective::AllReduce: {
        gloo::AllreduceOptions options(context_);
        options.setInput(in_, count);
        options.setOutput(out_, count);
        options.setReduceFunction(sum);
        return gloo::allreduce(options);
      }
      case Collective::AllGather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(in_, block);
        options.setOutput(out_, count);
        return gloo::allgather(options);
      }
      case Collective::ReduceScatter:
        return scattering_->run();
      case Collective::AllToAll: {
        gloo::AlltoallOptions options(context_);
        options.setInput(in_, count);
        options.setOutput(out_, count);
        return gloo::alltoall(options);
      }
      case Collective::Broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setOutput(in_, count);
        options.setRoot(0);
        return gloo::broadcast(options);
      }
      case Collective::Reduce: {
        gloo::ReduceOptions options(context_);
        options.setInput(in_, count);
        options.setOutput(out_, count);
        options.setReduceFunction(sum);
        options.setRoot(0);
        return gloo::reduce(options);
      }
      case Collective::Gather: {
        gloo::GatherOptions options(context_);
        options.setInput(in_, block);
        if (shape_.root()) options.setOutput(out_, count);
        options.setRoot(0);
        return gloo::gather(options);
      }
      case Collective::Scatter: {
        gloo::ScatterOptions options(context_);
        if (shape_.root()) {
          std::vector<float*> blocks;
          for (int r = 0; r < shape_.ranks; ++r) blocks.push_back(in_ + shape_.begin_of(r));
          options.setInputs(blocks, block);
        }
        options.setOutput(out_, block);
        options.setRoot(0);
        return gloo::scatter(options);
      }
      case Collective::Barrier:
        return barrier();
    }
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scattering_;
  Shape shape_;
  float *in_ = nullptr, *out_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: peer_gloo FOLDER RANKS\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]), rank = peers::fork_ranks(ranks);
  peers::pin(rank);
  GlooPeer peer(rank, ranks, std::string(argv[1]) + "/store");
  peers::Play<GlooPeer>(peer, argv[1]).run();
  std::fflush(nullptr);
  _exit(0);  // its threads cannot be ended
}
