// What a profile was measured on: machines and GPUs, as far as measured times depend on them and people tell them
// apart. A profile of another machine is refused with the difference named.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace tutti::select {

/// A host's processors. 0, "": unknown, as containers may hide some of it.
struct MeasuredMachine {
  std::string model;
  uint64_t packages = 0, cores = 0, numa = 0;
  uint64_t key = 0;  ///< machine_key()

  bool operator==(const MeasuredMachine&) const = default;
};

/// Of a host's graph.
MeasuredMachine measured_machine(const topo::Graph& graph);
/// "2 packages of 32 cores each in 4 NUMA nodes (AMD EPYC 7543)".
std::string to_text(const MeasuredMachine& machine);
/// Is nothing that is known of both different? The part of the machine that a process may use is not in it, nor are
/// its devices, as a port that is down would make another machine of it.
bool is_same(const MeasuredMachine& a, const MeasuredMachine& b);

/// GPUs of the measuring ranks.
struct MeasuredGpus {
  std::vector<std::string> models;  ///< each once, sorted
  std::string driver;               ///< "580.65.06, CUDA 13.0"

  bool operator==(const MeasuredGpus&) const = default;
};

/// Do they belong to the tests' stand-in for NVIDIA's driver? Its times mean nothing.
bool is_stand_in(const MeasuredGpus& gpus);

nlohmann::json to_json(const MeasuredMachine& machine);
nlohmann::json to_json(const MeasuredGpus& gpus);
/// These throw Error(InvalidArgument | ProtocolError), or nlohmann::json::exception for another form.
MeasuredMachine measured_machine_from(const nlohmann::json& page);
MeasuredGpus measured_gpus_from(const nlohmann::json& page);

}  // namespace tutti::select
