// Graphs, and streams that record one instead of working.
#pragma once

#include <cuda.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace fake {

struct Stream;

/// Makes the turn() of one execution of an operation.
using Maker = std::function<std::function<bool()>()>;

struct Node {
  CUgraphNodeType type;
  Maker make;
  std::vector<CUgraphNode> after;
};

/// An object of the user's that graphs keep alive.
struct UserObject {
  void* object;
  CUhostFn destroy;
  unsigned references;
  char tsan = 0;
};

struct Graph {
  std::list<std::unique_ptr<Node>> nodes;
  std::map<UserObject*, unsigned> objects;
};

struct GraphExec {
  std::vector<Maker> makers;
  std::vector<std::vector<size_t>> after;  ///< of each, the indices of those that it follows
  std::map<UserObject*, unsigned> objects;
  bool running = false;  ///< one execution at a time
  CUcontext context = nullptr;
};

/// A capture that has begun and not ended.
struct Capture {
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  uint64_t id = 0;
  bool invalid = false;
  std::vector<Stream*> streams;  ///< that take part
};

/// The captures that forbid this thread what is unsafe in one.
std::vector<Capture*> forbidding_captures();
/// Fails, and spoils those captures, if there are any.
void forbid_in_capture();
/// Fails, and spoils the capture, if the stream captures: for calls that cannot be captured.
void forbid_capturing(Stream& stream);
/// Ends a capture without a result.
void drop(Capture& capture);
void release(UserObject& object, unsigned count);
Graph* new_graph();
void destroy_graph(Graph* graph);

}  // namespace fake
