// Graphs: made by capture, or node by node.
#include <algorithm>
#include <set>
#include <thread>

#include "api.hpp"

namespace fake {
namespace {

std::set<Graph*>& graphs() {
  static auto& all = *new std::set<Graph*>;
  return all;
}
std::map<GraphExec*, std::shared_ptr<GraphExec>>& executables() {
  static auto& all = *new std::map<GraphExec*, std::shared_ptr<GraphExec>>;
  return all;
}
std::set<UserObject*>& objects() {
  static auto& all = *new std::set<UserObject*>;
  return all;
}

Graph& graph_of(CUgraph handle) {
  const auto found = graphs().find(reinterpret_cast<Graph*>(handle));
  require(found != graphs().end(), CUDA_ERROR_INVALID_VALUE);
  return **found;
}
const std::shared_ptr<GraphExec>& executable_of(CUgraphExec handle) {
  const auto found = executables().find(reinterpret_cast<GraphExec*>(handle));
  require(found != executables().end(), CUDA_ERROR_INVALID_VALUE);
  return found->second;
}
UserObject& object_of(CUuserObject handle) {
  const auto found = objects().find(reinterpret_cast<UserObject*>(handle));
  require(found != objects().end(), CUDA_ERROR_INVALID_VALUE);
  return **found;
}

std::shared_ptr<GraphExec> instantiate(const Graph& graph) {
  // The last that uses an executable, its owner or a launch, gives back what it holds of the user's objects.
  std::shared_ptr<GraphExec> made(new GraphExec, [](GraphExec* gone) {
    for (const auto& [object, count] : gone->objects) release(*object, count);
    delete gone;
  });
  std::map<const Node*, size_t> index;
  for (const auto& node : graph.nodes) {
    std::vector<size_t> after;
    for (const CUgraphNode before : node->after) after.push_back(index.at(reinterpret_cast<const Node*>(before)));
    index[node.get()] = made->makers.size();
    made->makers.push_back(node->make);
    made->after.push_back(std::move(after));
  }
  made->objects = graph.objects;
  for (const auto& [object, count] : made->objects) object->references += count;
  return made;
}

/// One execution: the nodes whose predecessors are done run side by side.
class Execution {
 public:
  explicit Execution(std::shared_ptr<GraphExec> executable) : executable_(std::move(executable)) {}

  bool turn() {
    GraphExec& graph = *executable_;
    if (turns_.empty()) {
      if (graph.running) return false;
      graph.running = true;
      for (const Maker& make : graph.makers) turns_.push_back(make());
      done_.resize(turns_.size());
    }
    for (size_t i = 0; i < turns_.size(); ++i) {
      const bool ready = std::all_of(graph.after[i].begin(), graph.after[i].end(), [&](size_t k) { return done_[k]; });
      if (!done_[i] && ready && turns_[i]()) {
        done_[i] = true;
        ++count_;
      }
    }
    if (count_ != turns_.size()) return false;
    graph.running = false;
    return true;
  }

 private:
  std::shared_ptr<GraphExec> executable_;
  std::vector<std::function<bool()>> turns_;
  std::vector<bool> done_;
  size_t count_ = 0;
};

}  // namespace

Graph* new_graph() { return *graphs().insert(new Graph).first; }

void destroy_graph(Graph* graph) {
  graphs().erase(graph);
  for (const auto& [object, count] : graph->objects) release(*object, count);
  delete graph;
}

// The user's function is called by a thread of the driver's.
void release(UserObject& object, unsigned count) {
  object.references -= std::min(count, object.references);
  if (object.references != 0) return;
  objects().erase(&object);
  std::thread([&object] {
    tsan_acquire(&object.tsan);
    object.destroy(object.object);
    delete &object;
  }).detach();
}

}  // namespace fake

using namespace fake;

CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  return call("cuGraphCreate", kInitialised, [&](Call&) {
    require_pointers(graph);
    *graph = reinterpret_cast<CUgraph>(new_graph());
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return call("cuGraphDestroy", kInitialised, [&](Call&) { destroy_graph(&graph_of(graph)); });
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  return call("cuGraphInstantiate", kContext | kDrains, [&](Call& one) {
    require_pointers(executable);
    auto made = instantiate(graph_of(graph));
    made->context = reinterpret_cast<CUcontext>(one.context);
    *executable = reinterpret_cast<CUgraphExec>(made.get());
    executables()[made.get()] = std::move(made);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call("cuGraphExecDestroy", kInitialised, [&](Call&) { executables().erase(executable_of(handle).get()); });
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return call("cuGraphUpload", kContext, [&](Call& one) {
    executable_of(handle);
    stream_of(one, stream);
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream handle_of_stream) {
  return call("cuGraphLaunch", kContext, [&](Call& one) {
    const auto executable = executable_of(handle);
    Stream& stream = stream_of(one, handle_of_stream);
    require(!config().fails("launch", one.context->device), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    submit(one, stream, CU_GRAPH_NODE_TYPE_GRAPH, [executable] {
      return [execution = std::make_shared<Execution>(executable)] { return execution->turn(); };
    });
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return call("cuGraphGetNodes", kInitialised, [&](Call&) {
    require_pointers(count);
    const Graph& graph = graph_of(handle);
    size_t i = 0;
    for (const auto& node : graph.nodes) {
      if (nodes != nullptr && i < *count) nodes[i] = reinterpret_cast<CUgraphNode>(node.get());
      ++i;
    }
    *count = nodes == nullptr ? i : std::min(i, *count);
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return call("cuGraphNodeGetType", kInitialised, [&](Call&) {
    require_pointers(node, type);
    *type = reinterpret_cast<Node*>(node)->type;
  });
}

// ---- the user's objects -----------------------------------------------------------------------------------

CUresult cuUserObjectCreate(CUuserObject* handle, void* pointer, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  return call("cuUserObjectCreate", kInitialised, [&](Call&) {
    require_pointers(handle, destroy);
    require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC && references > 0, CUDA_ERROR_INVALID_VALUE);
    auto* const object = new UserObject{pointer, destroy, references};
    objects().insert(object);
    precede(&object->tsan);
    *handle = reinterpret_cast<CUuserObject>(object);
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return call("cuUserObjectRetain", kInitialised, [&](Call&) { object_of(handle).references += count; });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return call("cuUserObjectRelease", kInitialised, [&](Call&) { release(object_of(handle), count); });
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object, unsigned count, unsigned flags) {
  return call("cuGraphRetainUserObject", kInitialised, [&](Call&) {
    Graph& graph = graph_of(handle);
    UserObject& retained = object_of(object);
    graph.objects[&retained] += count;
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) retained.references += count;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object, unsigned count) {
  return call("cuGraphReleaseUserObject", kInitialised, [&](Call&) {
    Graph& graph = graph_of(handle);
    UserObject& released = object_of(object);
    require(graph.objects[&released] >= count, CUDA_ERROR_INVALID_VALUE);
    graph.objects[&released] -= count;
    release(released, count);
  });
}
