//===- CudaGraph.cpp - Launches captured once, replayed often -------------===//

#include "CudaGraph.h"

using namespace fusion;
using namespace fusion::cuda;

Result<std::unique_ptr<CudaGraph>>
CudaGraph::capture(const Driver &driver, Stream stream,
                   const std::function<Status()> &issue) {
  // Other threads may allocate meanwhile.
  Code code = driver.streamBeginCapture(stream, kCaptureThreadLocal);
  if (Status s = driver.check(code, "beginning a capture"); !s)
    return s;
  Status issued = issue();
  Graph graph = nullptr;
  code = driver.streamEndCapture(stream, &graph);
  std::unique_ptr<CudaGraph> result(new CudaGraph(driver));
  if (issued && code == Code::Success)
    code = driver.graphInstantiate(&result->executable, graph, 0);
  if (graph)
    (void)driver.graphDestroy(graph);
  if (!issued)
    return issued;
  if (Status s = driver.check(code, "capturing a graph"); !s)
    return s;
  return result;
}

CudaGraph::~CudaGraph() {
  if (executable)
    (void)driver.graphExecDestroy(executable);
}

Status CudaGraph::launch(Stream stream) const {
  return driver.check(driver.graphLaunch(executable, stream),
                      "launching a graph");
}
