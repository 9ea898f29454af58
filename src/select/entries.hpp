// A candidate under a communicator's inputs: what does not depend on the size of a call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "select/inputs.hpp"
#include "select/machine_view.hpp"

namespace tutti::select {

struct Entry {
  const plan::Algorithm* algorithm = nullptr;
  const UsableMethod* usable = nullptr;  ///< of the inputs
  std::string rejected;                  ///< why it cannot be used; empty if it can
  bool outdone = false;                  ///< rejected because the user demands another
  bool forced_method = false;            ///< TUTTI_METHOD names its method, …
  bool preferred = false;                ///< … for all collectives: it comes first wherever it can run
  plan::Cost cost;                       ///< if it can be used, for the worst root
  uint64_t window = 0;
  std::optional<Traffic> traffic = {};  ///< of its plans, where the inputs have a view of the machine
};

/// All algorithms of the collective with all methods that may run them. Those that a method does not accept are left
/// out, unless the user demands that method for this collective. Throws Error(InvalidArgument | Unsupported) for
/// demands that exclude each other.
std::vector<Entry> entries_of(Collective collective, const CostInputs& inputs);

/// Throws the reason: `entry` cannot be used, and no other can.
[[noreturn]] void refuse(const Entry& entry, const std::string& why, const CostInputs& inputs);
/// What TUTTI_ALGO demands that is not used, though it is no error: synthesised plans for calls on memory of GPUs,
/// where none are kept. A sentence each, which says what to do. `only`: for this collective.
std::vector<std::string> unused_demands(const CostInputs& inputs, std::optional<Collective> only = {});

/// Warns about a forced algorithm along groups when the groups are trivial.
void warn_of_one_level(const std::vector<Entry>& all, const CostInputs& inputs);

}  // namespace tutti::select
