#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "train/checkpoint/files.hpp"
#include "train/checkpoint/rank_state.hpp"
#include "train/core/clock.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {
namespace {

constexpr size_t kKept = 2;             // checkpoints of a folder
constexpr int kLookMs = 10;             // between two looks for the files of other ranks
constexpr double kOthersSeconds = 600;  // for their files to come

/// This rank's two files.
void write_rank(const Path& folder, int rank, RankState state, const std::atomic<bool>& stop) {
  Writer file(rank_file(folder, rank, "bin"));
  for (Saved& piece : state.pieces) {
    if (stop) throw Error(Code::Aborted, "checkpoint: it was given up");
    const Bytes bytes = state.bytes_of(piece);
    piece.checksum = checksum(bytes);
    file.append(bytes);
  }
  file.sync();
  write_json(rank_file(folder, rank, "json"), state.pieces);
}

/// A rank that cannot write says so by an empty file, if it can do that.
void mark_failed(const Path& folder, int rank) {
  try {
    Writer(rank_file(folder, rank, "failed"));
  } catch (const Error&) {  // then the others wait
  }
}

/// True if the rank's files are there and whole. Throws if it has failed.
bool is_written(const Path& folder, int rank) {
  if (std::filesystem::exists(rank_file(folder, rank, "failed"))) {
    throw Error(Code::PeerFailed, fmt::format("checkpoint: rank {} could not write its part", rank));
  }
  try {
    if (!std::filesystem::exists(rank_file(folder, rank, "json"))) return false;
    read_json(rank_file(folder, rank, "json"));
    return true;
  } catch (const Error&) {  // it is being written
    return false;
  }
}

void complete(const Path& folder, const Path& partial, const CheckpointOf& of, int ranks) {
  write_json(partial / "manifest.json", {{"format", kFormat},
                                         {"version", kVersion},
                                         {"step", of.step},
                                         {"model", of.model},
                                         {"run", of.run},
                                         {"job", of.job},
                                         {"ranks", ranks}});
  sync_folder(partial);
  std::filesystem::rename(partial, step_folder(folder, of.step));
  sync_folder(folder);
  const std::vector<int64_t> steps = steps_in(folder);
  for (size_t i = kKept; i < steps.size(); ++i) std::filesystem::remove_all(step_folder(folder, steps[i]));
}

/// Calls `function` on each rank. Throws on all ranks if one fails: NotSaved if it cannot write.
void write_on_all(Collectives& world, const std::function<void()>& function) {
  const std::optional<Error> why = first_failure(world, function);
  if (!why) return;
  if (why->code() == Code::InvalidArgument) throw Error(*why);  // no later try would succeed
  throw NotSaved(*why);
}

}  // namespace

RankState copy_state(const CheckpointPart& part) {
  RankState state;
  for (const StatePiece& piece : part.data_parallel.state()) {
    const size_t first = piece.saved_first, last = first + piece.saved_count;
    for (const Parameter& p : part.units[piece.unit].layout->parameters()) {
      const size_t from = std::max(first, p.offset), to = std::min(last, p.offset + p.count), count = to - from;
      const bool others_too = !p.sharded() && !p.expert;  // all tensor-parallel ranks hold it
      if (from >= to || (others_too && part.tp_rank != 0)) continue;
      const size_t at = state.values.size();
      state.values.resize(at + kArrays * count);
      const Span arrays[kArrays] = {piece.master, piece.moment1, piece.moment2};
      for (size_t i = 0; i < kArrays; ++i) {
        const Span source = arrays[i].part(from - piece.first, count);
        part.device.download(state.values.data() + at + i * count, source.data, source.bytes());
      }
      state.pieces.push_back(Saved{{p.full, p.start, p.shape, from - p.offset, count}, p.name, "", at * sizeof(float)});
    }
  }
  return state;
}

/// On a thread of its own: this rank's files, and on rank 0, when those of all ranks are there, the rest.
struct BackgroundSave::Work {
  Path folder, partial;
  CheckpointOf of;
  int rank, ranks;
  RankState state;
  std::atomic<bool> stop{false}, ended{false}, failed{false};
  std::promise<std::optional<Error>> written;  // this rank's part
  std::optional<Error> failure;                // of the rest
  std::thread thread;

  void run() {
    std::optional<Error> why = failure_of([&] { write_rank(partial, rank, std::move(state), stop); });
    if (why) mark_failed(partial, rank);
    failed = why.has_value();
    const bool goes_on = rank == 0 && !why;
    written.set_value(std::move(why));
    if (goes_on) failure = failure_of([&] { await_others(); });
    if (failure) failed = true;
    ended = true;
  }
  static std::optional<Error> failure_of(const std::function<void()>& body) {
    try {
      body();
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    } catch (const std::exception& error) {  // of the file system
      return Error(Code::SystemError, fmt::format("checkpoint: {}", error.what()));
    }
  }
  void await_others() {
    const double until = now() + kOthersSeconds;
    for (int other = 1; other < ranks;) {
      if (is_written(partial, other)) {
        ++other;
        continue;
      }
      if (stop) throw Error(Code::Aborted, "checkpoint: it was given up");
      if (now() > until) {
        throw Error(Code::Timeout,
                    fmt::format("checkpoint: rank {} has not written its part to {} in {} s: do all ranks "
                                "see the same folder?",
                                other, partial.string(), kOthersSeconds));
      }
      poll(nullptr, 0, kLookMs);
    }
    complete(folder, partial, of, ranks);
  }
};

BackgroundSave::BackgroundSave(const std::string& folder, const CheckpointOf& of, const CheckpointPart& part)
    : work_(std::make_unique<Work>()) {
  const Path whole = step_folder(folder, of.step);
  work_->folder = folder;
  work_->partial = whole.string() + ".partial";
  work_->of = of;
  work_->rank = part.world.rank();
  work_->ranks = part.world.size();
  write_on_all(part.world, [&] {
    if (work_->rank != 0) return;
    if (std::filesystem::exists(whole)) {
      throw Error(Code::InvalidArgument,
                  fmt::format("checkpoint: {} is there already: remove it, or choose another folder", whole.string()));
    }
    remove_partial(folder);
    std::filesystem::create_directories(work_->partial);
    sync_folder(std::filesystem::absolute(folder).parent_path());
  });
  work_->state = copy_state(part);
  work_->thread = std::thread([work = work_.get()] { work->run(); });
}

BackgroundSave::~BackgroundSave() {
  if (work_ == nullptr) return;
  work_->stop = true;
  if (work_->thread.joinable()) work_->thread.join();
}

bool BackgroundSave::ended() const { return work_->ended; }
bool BackgroundSave::failed() const { return work_->failed; }

/// First all ranks' parts, whose loss is noticed by the collective call, then rank 0's rest, which is quick.
void BackgroundSave::finish(Collectives& world) {
  const std::optional<Error> why = work_->written.get_future().get();
  try {
    write_on_all(world, [&] {
      if (why) throw Error(*why);
    });
    work_->thread.join();
    write_on_all(world, [&] {
      if (work_->failure) throw Error(*work_->failure);
    });
  } catch (const NotSaved&) {
    work_->stop = true;
    if (work_->thread.joinable()) work_->thread.join();
    std::error_code ignored;  // the next save removes what remains; until then it takes room of others
    if (work_->rank == 0) std::filesystem::remove_all(work_->partial, ignored);
    throw;
  }
}

int64_t BackgroundSave::step() const { return work_->of.step; }

std::optional<int64_t> newest_checkpoint(const std::string& folder) {
  const std::vector<int64_t> steps = steps_in(folder);
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

bool newest_is_of_job(const std::string& folder, const std::string& job) {
  const std::optional<int64_t> newest = newest_checkpoint(folder);
  if (!newest || job.empty()) return false;
  try {
    return read_json(step_folder(folder, *newest) / "manifest.json").value("job", "") == job;
  } catch (const Error&) {
    return false;
  }
}

void save_checkpoint(const std::string& folder, const CheckpointOf& of, const CheckpointPart& part) {
  BackgroundSave(folder, of, part).finish(part.world);
}

void try_folder(const std::string& folder, Collectives& world) {
  struct Removed {  // in the end
    Path path;
    ~Removed() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  };
  const auto write = [](const Path& path) {
    const std::vector<std::byte> bytes(4096);
    Writer probe(path);
    probe.append(bytes);
    probe.sync();
  };
  const Path token = Path(folder) / "try";  // of rank 0, which all are to see
  std::unique_ptr<Removed> removed;
  if (world.rank() == 0) removed.reset(new Removed{token});
  write_on_all(world, [&] {
    std::filesystem::create_directories(folder);
    if (world.rank() == 0) write(token);
  });
  write_on_all(world, [&] {
    if (!std::filesystem::exists(token)) {
      throw Error(Code::SystemError,
                  fmt::format("checkpoint: rank 0's folder {} is another one: all ranks must see the same", folder));
    }
    const Removed own{Path(folder) / fmt::format("try-{:05d}", world.rank())};
    write(own.path);
  });
}

}  // namespace tutti::train
