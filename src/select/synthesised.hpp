// Plans that were synthesised for a machine (docs/synthesis.md), as `tutti tune --synth` keeps them in the cache folder
// of rank 0's user, and as rank 0 sends them to the others.
//
// A file is for ranks that stand on certain nodes of a topology; both make its key, which names it. Nothing in it is
// trusted: plans run only after the verifier has proven them, and a file that is damaged, or of another key, is not
// used, with a warning. Bounds are only printed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "plan/algorithm.hpp"
#include "plan/order.hpp"
#include "select/places.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// The least time that any schedule can take on a machine.
struct KnownBound {
  double seconds_per_byte = 0;  ///< of the buffer, as --bytes counts it
  double seconds = 0;           ///< of an empty call
  bool exact = false;           ///< trees reach it; else it may be that no schedule does
  std::string words;            ///< the certificate: the cut that shows it

  double of(uint64_t bytes) const;
  bool operator==(const KnownBound&) const = default;
};

inline constexpr std::string_view kSynthesised = "synth";  ///< the name of plans that reach the bound of large calls

/// "synth", "synth_tree", …, alone or with a hash: "synth@1f3a…".
bool is_synthesised(std::string_view algorithm);

/// What is known of one machine and its ranks.
struct Synthesised {
  std::vector<const plan::Algorithm*> algorithms;  ///< adopted: verified. Their names have a hash
  std::map<Collective, KnownBound> bounds;
  std::map<Collective, KnownBound> folding;  ///< of what the method nvls runs, where switches fold; no text has them
  std::string text;                          ///< that it was read from
  bool is_of_now = true;                     ///< made for what is known of the machine now; on rank 0

  /// By its name, with or without the hash; null: there is none.
  const plan::Algorithm* find(Collective collective, std::string_view name) const;
};

/// What such a text says, plans as plan::to_json() writes them.
struct SynthesisedText {
  uint64_t key = 0;
  Rank ranks = 0;
  std::map<Collective, KnownBound> bounds;
  std::vector<std::string> plans;
};

inline constexpr size_t kMaxSynthesised = size_t{7} << 20;  ///< bytes of a text: it travels in one exchange

std::string to_text(const SynthesisedText& page);
/// Verifies the plans, unless the process has read the same text before. `key`: none: any, rank 0 has checked it.
/// Which plans are usable depends on the text alone, so that all ranks find the same; but rank 0, before it sends them,
/// may `give_up` at some time: Error(Timeout). Throws Error(InvalidArgument), which says what is wrong with the text.
std::shared_ptr<const Synthesised> read_synthesised(const std::string& text, std::optional<uint64_t> key, Rank ranks,
                                                    std::optional<Deadline> give_up = {});
/// Whether this process has refused the text, for another reason than the time that its proofs take.
bool was_refused(const std::string& text, uint64_t key, Rank ranks);
/// Proves plans as read_synthesised() does, but neither adopts them nor holds a lock that others wait for. Throws
/// Error, for the same reasons.
void prove(const SynthesisedText& page);

/// Where plans drawn on an order have their ranks: a GPU or core each, where ranks may use more than one. Several share
/// one where there are too few.
std::vector<topo::NodeId> nodes_of_plans(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                         const plan::RankOrder& order);
/// Until when rank 0 proves plans for ranks on these nodes: a part of the time that making a communicator may take,
/// since all ranks prove them after it, and those that share a core one after the other.
Deadline deadline_of_proofs(const std::vector<topo::NodeId>& nodes);
inline constexpr double kPartForProofs = 1.0 / 6;  ///< of TUTTI_INIT_TIMEOUT
/// What is left of `seconds` for each rank's proofs, if ranks on one of these nodes make them one after the other.
double seconds_of_proofs(const std::vector<topo::NodeId>& nodes, double seconds);
/// Equal for machines that are alike in all that times depend on, with ranks on the same nodes; whatever part of a
/// machine processes may use. The upper half says nothing of the network between hosts: it stays what it is when
/// `tutti tune --hosts` measures rates anew.
uint64_t synthesis_key(const topo::Graph& graph, const std::vector<topo::NodeId>& nodes);
/// As files and their names have it.
std::string text_of_key(uint64_t key);
/// The file with this key in the cache folder; "": there is no such folder.
std::string synthesised_path(uint64_t key);
std::string synthesised_path(uint64_t key, const std::string& folder);

/// From now on, this process takes the plans of this file as those that are kept, for whatever machine: `tutti tune`
/// measures plans before their machine's links are known to communicators. "": as before.
void use_synthesised(std::string path);

/// What is kept of this machine; null: nothing, or nothing that can be used (with a warning), or TUTTI_SYNTH is off.
/// Where nothing is kept for the rates that are known of its network now: what was kept last for others (is_of_now is
/// false then, and there are no bounds).
std::shared_ptr<const Synthesised> kept_synthesised(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                                    const plan::RankOrder& order);

}  // namespace tutti::select
