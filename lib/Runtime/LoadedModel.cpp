//===- LoadedModel.cpp - An artifact ready to run -------------------------===//

#include "Executor.h"
#include "fusion/Runtime/Session.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;

std::optional<std::pair<Device, int32_t>>
fusion::parseDevice(const std::string &text) {
  if (text == "host")
    return std::make_pair(Device::Host, 0);
  if (text == "cuda")
    return std::make_pair(Device::Cuda, 0);
  const std::string prefix = "cuda:";
  std::string number = text.substr(std::min(prefix.size(), text.size()));
  if (text.compare(0, prefix.size(), prefix) != 0 || number.empty() ||
      number.size() > 4 ||
      number.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::make_pair(Device::Cuda, static_cast<int32_t>(std::stoi(number)));
}

LoadedModel::~LoadedModel() = default;

void LoadedModel::compile() {
  const Model &m = file->model();
  std::vector<std::string> symbols;
  for (const Symbol &symbol : m.symbols)
    symbols.push_back(symbol.name);
  signature = std::make_unique<SymTable>(symbols);
  auto shape = [&](const std::vector<SymExpr> &dims) {
    Shape places;
    for (const SymExpr &dim : dims)
      places.push_back(signature->add(dim));
    return places;
  };
  for (const TensorInfo &t : m.inputs)
    inputs.push_back(shape(t.shape));
  for (const TensorInfo &t : m.outputs)
    outputs.push_back(shape(t.shape));
  for (const State &s : m.states)
    states.push_back(shape(s.storage));
  for (const Guard &g : m.guards)
    guards.push_back({signature->add(g.left), signature->add(g.right)});
  appended = signature->add(m.appended);
  for (const Program &p : m.programs) {
    rows.push_back(signature->add(p.rows));
    programs.emplace_back(p, symbols);
  }
}

bool LoadedModel::runsOn(const Program &program) const {
  return (program.device == Program::Device::Card) ==
         (theDevice == Device::Cuda);
}

bool LoadedModel::hasSet(const std::string &set) const {
  for (const Program &p : model().programs)
    if (p.set == set && runsOn(p))
      return true;
  return false;
}

Result<std::shared_ptr<const LoadedModel>>
LoadedModel::open(const std::string &path, Device device, unsigned threads,
                  const CudaOptions &cuda) {
  // The card's executor checks the weights while it copies them.
  auto file = Artifact::open(
      path, 0,
      device == Device::Cuda ? Verification::AllButWeights : Verification::All);
  if (!file)
    return file.status();
  std::shared_ptr<LoadedModel> model(new LoadedModel);
  model->file = std::move(*file);
  model->theDevice = device;
  model->theCard = cuda.card;
  model->compile();
  LoadedPrograms loaded{*model->file, model->programs};
  auto executor = device == Device::Host ? createHostExecutor(loaded, threads)
                                         : createCudaExecutor(loaded, cuda);
  if (!executor)
    return executor.status();
  model->executor = std::move(*executor);
  return std::shared_ptr<const LoadedModel>(std::move(model));
}
