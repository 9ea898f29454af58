#include "tools/tune/machines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "select/measured_on.hpp"
#include "tools/tune/cells.hpp"
#include "tools/tune/timing.hpp"
#include "topo/detect.hpp"

namespace tutti::tools {
namespace {

using Line = std::array<char, 1024>;  // JSON, and a 0

}  // namespace

void write_machines(Communicator& comm, const std::string& results) {
  Line mine{};
  std::snprintf(mine.data(), mine.size(), "%s",
                select::to_json(select::measured_machine(topo::local_topology())).dump().c_str());
  std::vector<Line> all(static_cast<size_t>(comm.size()));
  check(tuttiAllGather(mine.data(), all.data(), sizeof mine, tuttiUint8, comm.handle(), nullptr));
  std::vector<select::MeasuredMachine> machines;
  for (Line& line : all) {
    line.back() = 0;
    const auto machine = select::measured_machine_from(nlohmann::json::parse(line.data()));
    if (std::find(machines.begin(), machines.end(), machine) == machines.end()) machines.push_back(machine);
  }
  if (comm.rank() != 0) return;
  Results file(results);
  for (const select::MeasuredMachine& machine : machines) file.add(line_of(machine));
}

}  // namespace tutti::tools
