#include "tutti/train/snapshots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "train/checkpoint/assembly.hpp"
#include "train/checkpoint/keepers.hpp"
#include "train/checkpoint/rank_state.hpp"
#include "train/core/hosts.hpp"

namespace tutti::train {

/// The state of one rank of a communicator that may be gone.
struct Snapshots::Copy {
  CheckpointOf of;
  uint64_t taken = 0;  ///< a random number: the same of the copies that were taken together
  int rank = 0, ranks = 0;
  RankState state;
};
struct Snapshots::Held {
  std::vector<Copy> copies;
};

namespace {

using nlohmann::json;

constexpr size_t kMaxFloats = size_t{1} << 40, kMaxText = size_t{1} << 30;

/// Of what a copy is, and how long its parts are.
struct Label {
  int64_t step = 0;
  uint64_t taken = 0;
  std::string model, run;
  int rank = 0, ranks = 0;
  size_t values = 0;  ///< floats
  std::vector<Saved> pieces;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Label, step, taken, model, run, rank, ranks, values, pieces)
};

template <class Copy>
Label label_of(const Copy& copy) {
  return {copy.of.step,     copy.taken, copy.of.model, copy.of.run, copy.rank, copy.ranks, copy.state.values.size(),
          copy.state.pieces};
}

/// A label that another rank has sent. Throws Error(ProtocolError) unless it makes sense.
Label label_in(const json& entry) {
  try {
    auto label = entry.get<Label>();
    bool is_sane = label.ranks >= 1 && label.rank >= 0 && label.rank < label.ranks && label.values <= kMaxFloats;
    for (const Saved& piece : label.pieces) {
      const size_t first = piece.offset / sizeof(float);
      is_sane = is_sane && first <= label.values && piece.count <= (label.values - first) / kArrays;
    }
    if (is_sane) return label;
  } catch (const json::exception&) {  // it lacks something
  }
  throw Error(Code::ProtocolError, "a rank has sent a copy of its state that makes no sense");
}
json parsed(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) throw Error(Code::ProtocolError, "a rank has sent a text that is no JSON");
  return value;
}

/// A text of each rank, by rank.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& mine) {
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<uint64_t> lengths(ranks);
  const uint64_t length = mine.size();
  comm.all_gather(std::span(&length, 1), lengths);
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<uint8_t> padded(longest), all(longest * ranks);
  std::copy(mine.begin(), mine.end(), padded.begin());
  if (longest > 0) comm.all_gather(padded, all);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto* const text = reinterpret_cast<const char*>(all.data()) + rank * longest;
    texts.emplace_back(text, lengths[rank]);
  }
  return texts;
}

/// Sends data to one rank, and receives as many bytes as `into` has from another one.
void pass_on(Communicator& comm, Bytes data, int to, std::span<std::byte> into, int from) {
  Group group;
  comm.send(data, to);
  comm.recv(into, from);
  group.end();
}

/// The labels of all copies that ranks hold, with the first holder of each, by step and rank.
struct Known {
  Label label;
  int holder = 0;
};
using KnownBySteps = std::map<std::pair<int64_t, uint64_t>, std::map<int, Known>>;  // and by what was taken together

KnownBySteps known_among(Communicator& comm, const json& mine) {
  KnownBySteps known;
  const std::vector<std::string> texts = gather_texts(comm, mine.dump());
  for (size_t holder = 0; holder < texts.size(); ++holder) {
    for (const json& entry : parsed(texts[holder])) {
      auto label = label_in(entry);
      auto& together = known[{label.step, label.taken}];
      const int rank = label.rank;
      together.try_emplace(rank, Known{std::move(label), static_cast<int>(holder)});
    }
  }
  return known;
}

/// The newest step of which all ranks' state is known.
const std::map<int, Known>* newest_whole(const KnownBySteps& known) {
  for (auto step = known.rbegin(); step != known.rend(); ++step) {
    const auto& ranks = step->second;
    if (ranks.size() == static_cast<size_t>(ranks.begin()->second.label.ranks)) return &ranks;
  }
  return nullptr;
}

void add_pieces(Assembly& assembly, const Label& label, const std::vector<float>& values) {
  for (const Saved& piece : label.pieces) {
    if (!assembly.wants(piece)) continue;
    const auto begin = values.begin() + static_cast<ptrdiff_t>(piece.offset / sizeof(float));
    assembly.add(piece, {begin, begin + static_cast<ptrdiff_t>(kArrays * piece.count)});
  }
}

}  // namespace

Snapshots::Snapshots() : held_(std::make_unique<Held>()) {}
Snapshots::~Snapshots() = default;

size_t Snapshots::bytes() const {
  size_t sum = 0;
  for (const Copy& copy : held_->copies) sum += copy.state.values.size() * sizeof(float);
  return sum;
}

void Snapshots::take(const CheckpointOf& of, const CheckpointPart& part) {
  const int rank = part.world.rank(), ranks = part.world.size();
  uint64_t taken = std::random_device()();
  if (ranks > 1) part.world.communicator().broadcast(taken, 0);
  std::vector<Copy> fresh;
  fresh.push_back({of, taken, rank, ranks, copy_state(part)});
  if (ranks > 1) {
    Communicator& comm = part.world.communicator();
    const std::vector<int> keeper = keepers(hosts_of(comm));
    const int to = keeper[static_cast<size_t>(rank)];
    const auto from = static_cast<int>(std::find(keeper.begin(), keeper.end(), rank) - keeper.begin());
    const std::string mine = json(label_of(fresh.front())).dump();
    uint64_t length = mine.size(), others_length = 0;
    pass_on(comm, std::as_bytes(std::span(&length, 1)), to, std::as_writable_bytes(std::span(&others_length, 1)), from);
    if (others_length > kMaxText) throw Error(Code::ProtocolError, "a rank has sent too long a text");
    std::string others(others_length, '\0');
    pass_on(comm, std::as_bytes(std::span(mine)), to, std::as_writable_bytes(std::span(others)), from);
    auto label = label_in(parsed(others));
    Copy copy{of, taken, label.rank, label.ranks, {std::move(label.pieces), std::vector<float>(label.values)}};
    pass_on(comm, std::as_bytes(std::span(fresh.front().state.values)), to,
            std::as_writable_bytes(std::span(copy.state.values)), from);
    fresh.push_back(std::move(copy));
  }
  // Older ones are dropped when all ranks have the new ones: one that dies before takes no others' with it.
  const auto older = static_cast<ptrdiff_t>(held_->copies.size());
  std::move(fresh.begin(), fresh.end(), std::back_inserter(held_->copies));
  if (ranks > 1) part.world.communicator().barrier();
  held_->copies.erase(held_->copies.begin(), held_->copies.begin() + older);
}

std::optional<CheckpointOf> Snapshots::restore(const std::string& model, const CheckpointPart& part) {
  const bool alone = part.world.absent();
  json mine = json::array();
  for (const Copy& copy : held_->copies) mine.push_back(label_of(copy));
  KnownBySteps known;
  if (alone) {
    for (const Copy& copy : held_->copies) {
      known[{copy.of.step, copy.taken}].try_emplace(copy.rank, Known{label_of(copy), 0});
    }
  } else {
    known = known_among(part.world.communicator(), mine);
  }
  const auto* const whole = newest_whole(known);
  if (whole == nullptr) return std::nullopt;
  const Label& first = whole->begin()->second.label;
  const std::string origin = fmt::format("the copies in memory of step {}", first.step);
  check_model(origin, first.model, model);
  Assembly assembly(part, origin);
  std::optional<Error> failure;  // of this rank; the others go on to the end
  for (const auto& [rank, from] : *whole) {
    const auto same = [&, of = rank](const Copy& copy) {
      return copy.of.step == first.step && copy.taken == first.taken && copy.rank == of;
    };
    const auto own = std::find_if(held_->copies.begin(), held_->copies.end(), same);
    std::vector<float> values = own != held_->copies.end() ? own->state.values : std::vector<float>(from.label.values);
    if (!alone && !values.empty()) part.world.communicator().broadcast(values, from.holder);
    try {
      add_pieces(assembly, from.label, values);
    } catch (const Error& error) {
      failure = error;
    }
  }
  all_or_none(part.world, [&] {
    if (failure) throw Error(*failure);
    assembly.finish();
  });
  part.data_parallel.state_replaced();
  std::erase_if(held_->copies, [&](const Copy& copy) { return copy.taken != first.taken; });
  return CheckpointOf{first.step, first.model, first.run};
}

}  // namespace tutti::train
