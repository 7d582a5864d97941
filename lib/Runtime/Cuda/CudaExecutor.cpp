//===- CudaExecutor.cpp - Runs artifacts on a card ------------------------===//
//
// Opening: find the driver and the card, check that the artifact's code is for
// it, load the cubins and copy the weights. Sessions do the rest.
//
//===----------------------------------------------------------------------===//

#include "CudaSession.h"

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

/// What the artifact's code for the card runs on.
static constexpr int32_t kCapability = 90;

namespace {

class CudaExecutor : public Executor {
public:
  explicit CudaExecutor(LoadedPrograms loaded)
      : shared{loaded, nullptr, nullptr, nullptr, nullptr, {}, 0} {}
  ~CudaExecutor() override {
    if (!shared.device)
      return;
    ContextScope scope(*shared.device);
    shared.argmax.reset();
    shared.weights.reset();
    shared.code.reset();
  }

  std::unique_ptr<ExecutorSession> createSession() override {
    return std::make_unique<CudaSession>(shared);
  }

  Status load(const CudaOptions &options);

private:
  Status checkCard() const;
  CudaShared shared;
};

Status CudaExecutor::checkCard() const {
  int32_t found = shared.device->capability();
  if (found == kCapability)
    return {};
  return Status(StatusCode::Unavailable,
                "the artifact holds code for sm_90a, and '" +
                    shared.device->name() + "' is sm_" + std::to_string(found));
}

Status CudaExecutor::load(const CudaOptions &options) {
  const Model &model = shared.loaded.artifact.model();
  auto driver = Driver::open(options.driver);
  if (!driver)
    return driver.status();
  auto device = CudaDevice::open(std::move(*driver), options.card);
  if (!device)
    return device.status();
  shared.device = std::move(*device);
  bool any = false;
  for (const CompiledProgram &program : shared.loaded.programs) {
    bool card = program.program->device == Program::Device::Card;
    any |= card;
    shared.programs.push_back(card ? std::make_unique<CardProgram>(
                                         model, program, shared.counterBytes)
                                   : nullptr);
  }
  if (!any)
    return Status(StatusCode::Unavailable,
                  "the artifact holds no code for a card; compile it with "
                  "--target=sm_90a");
  if (Status s = checkCard(); !s)
    return s;
  ContextScope scope(*shared.device);
  auto code = CudaCode::load(*shared.device, shared.loaded.artifact);
  if (!code)
    return code.status();
  shared.code = std::move(*code);
  auto weights = CudaWeights::load(*shared.device, shared.loaded.artifact);
  if (!weights)
    return weights.status();
  shared.weights = std::move(*weights);
  for (const TensorInfo &output : model.outputs)
    if (output.role == Role::Logits && !shared.argmax)
      shared.argmax = CudaArgmax::load(*shared.device);
  return {};
}

} // namespace

Result<std::unique_ptr<Executor>>
fusion::createCudaExecutor(LoadedPrograms loaded, const CudaOptions &options) {
  auto executor = std::make_unique<CudaExecutor>(loaded);
  Status status = executor->load(options);
  if (status)
    return std::unique_ptr<Executor>(std::move(executor));
  std::string why = "cannot run '" + loaded.artifact.path() +
                    "' with --device=cuda: " + status.message();
  if (status.code() == StatusCode::Unavailable)
    why += "; use --device=host";
  return Status(status.code(), why);
}
