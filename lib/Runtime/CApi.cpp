//===- CApi.cpp - C interface of the fusion runtime -----------------------===//

#include "fusion-c/Runtime.h"

#include "fusion/Artifact/Dump.h"
#include "fusion/Runtime/Decoder.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;

namespace {
thread_local std::string lastError;

FusionStatus report(const Status &status) {
  lastError = status.message();
  return static_cast<FusionStatus>(status.code());
}

FusionStatus usage(const std::string &why) {
  return report(Status(StatusCode::Usage, why));
}

/// The C view of a TensorInfo.
struct TensorText {
  explicit TensorText(const TensorInfo &info) : info(info) {
    for (const SymExpr &dim : info.shape) {
      dims.push_back(dim.asConstant().value_or(-1));
      texts.push_back(dim.str());
    }
    for (const std::string &text : texts)
      pointers.push_back(text.c_str());
  }
  FusionTensorInfo view() const {
    return {info.name.c_str(),
            static_cast<int32_t>(info.type),
            static_cast<int32_t>(info.role),
            static_cast<int32_t>(dims.size()),
            dims.data(),
            pointers.data()};
  }
  const TensorInfo &info;
  std::vector<int64_t> dims;
  std::vector<std::string> texts;
  std::vector<const char *> pointers;
};
} // namespace

struct FusionModel {
  std::shared_ptr<const LoadedModel> loaded;
  std::vector<TensorText> inputs, outputs;
  std::string dump;
};

struct FusionSession {
  std::unique_ptr<Session> session;
  std::unique_ptr<Decoder> decoder;
};

const char *fusionLastError(void) { return lastError.c_str(); }

FusionStatus fusionModelOpen(const char *path, const char *device,
                             int32_t threads, FusionModel **model) {
  if (!path || !model || threads < 0)
    return usage("fusionModelOpen: null or negative argument");
  auto place = parseDevice(device ? device : "host");
  if (!place)
    return usage("fusionModelOpen: the device is neither host nor cuda nor "
                 "cuda:N");
  CudaOptions cuda;
  cuda.card = place->second;
  auto loaded = LoadedModel::open(path, place->first,
                                  static_cast<unsigned>(threads), cuda);
  if (!loaded)
    return report(loaded.status());
  auto result = std::make_unique<FusionModel>();
  result->loaded = *loaded;
  const Model &m = (*loaded)->model();
  for (const TensorInfo &t : m.inputs)
    result->inputs.emplace_back(t);
  for (const TensorInfo &t : m.outputs)
    result->outputs.emplace_back(t);
  // Moving a vector of strings may move their characters.
  for (auto *list : {&result->inputs, &result->outputs})
    for (TensorText &t : *list)
      for (size_t i = 0; i < t.texts.size(); ++i)
        t.pointers[i] = t.texts[i].c_str();
  result->dump = dumpModel(m);
  *model = result.release();
  return report({});
}

void fusionModelClose(FusionModel *model) { delete model; }

int32_t fusionModelInputCount(const FusionModel *model) {
  return static_cast<int32_t>(model->inputs.size());
}
int32_t fusionModelOutputCount(const FusionModel *model) {
  return static_cast<int32_t>(model->outputs.size());
}

static FusionStatus describe(const std::vector<TensorText> &list, int32_t index,
                             FusionTensorInfo *info) {
  if (!info || index < 0 || static_cast<size_t>(index) >= list.size())
    return usage("there is no tensor of this index");
  *info = list[static_cast<size_t>(index)].view();
  return report({});
}
FusionStatus fusionModelInput(const FusionModel *model, int32_t index,
                              FusionTensorInfo *info) {
  return describe(model->inputs, index, info);
}
FusionStatus fusionModelOutput(const FusionModel *model, int32_t index,
                               FusionTensorInfo *info) {
  return describe(model->outputs, index, info);
}

static int32_t findTensor(const std::vector<TensorText> &list,
                          const char *name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (name && list[i].info.name == name)
      return static_cast<int32_t>(i);
  return -1;
}
int32_t fusionModelFindInput(const FusionModel *model, const char *name) {
  return findTensor(model->inputs, name);
}
int32_t fusionModelFindOutput(const FusionModel *model, const char *name) {
  return findTensor(model->outputs, name);
}

int64_t fusionModelMaxContext(const FusionModel *model) {
  return model->loaded->model().maxContext;
}
const char *fusionModelExplain(const FusionModel *model) {
  return model->loaded->model().explain.c_str();
}
const char *fusionModelDump(const FusionModel *model) {
  return model->dump.c_str();
}

FusionStatus fusionSessionCreate(const FusionModel *model,
                                 FusionSession **session) {
  if (!model || !session)
    return usage("fusionSessionCreate: null argument");
  auto created = Session::create(model->loaded);
  if (!created)
    return report(created.status());
  *session = new FusionSession{std::move(*created), nullptr};
  return report({});
}

void fusionSessionDestroy(FusionSession *session) { delete session; }

FusionStatus fusionSessionSetInput(FusionSession *session, int32_t index,
                                   int32_t dtype, int32_t rank,
                                   const int64_t *dims, const void *data) {
  if (!session || rank < 0 || (rank > 0 && !dims))
    return usage("fusionSessionSetInput: null or negative argument");
  auto type = static_cast<DType>(dtype);
  if (dtype < 0 || dtype > 255 || bitWidth(type) == 0)
    return usage("fusionSessionSetInput: unknown element type");
  std::vector<int64_t> shape(dims, dims + rank);
  return report(session->session->setInput(static_cast<uint32_t>(index), type,
                                           std::move(shape), data));
}

FusionStatus fusionSessionSetOutput(FusionSession *session, int32_t index,
                                    void *data, uint64_t bytes) {
  if (!session)
    return usage("fusionSessionSetOutput: null argument");
  return report(
      session->session->setOutput(static_cast<uint32_t>(index), data, bytes));
}

/// Where a tensor of the caller's is; nullopt, with an error, when it is on
/// another device than the model's card.
static std::optional<Device> memoryOf(const FusionSession *session,
                                      const FusionTensor *tensor) {
  if (!session || !tensor || tensor->rank < 0 ||
      (tensor->rank > 0 && !tensor->dims)) {
    usage("a tensor to bind: null or negative argument");
    return std::nullopt;
  }
  if (tensor->device_type == FUSION_CPU ||
      tensor->device_type == FUSION_CUDA_HOST)
    return Device::Host;
  const LoadedModel &loaded = session->session->loaded();
  if (tensor->device_type != FUSION_CUDA) {
    usage("a tensor to bind: unknown device type " +
          std::to_string(tensor->device_type));
    return std::nullopt;
  }
  if (loaded.device() == Device::Cuda && tensor->device_id != loaded.card()) {
    usage("a tensor to bind is on card " + std::to_string(tensor->device_id) +
          ", the model on card " + std::to_string(loaded.card()));
    return std::nullopt;
  }
  return Device::Cuda;
}

FusionStatus fusionSessionBindInput(FusionSession *session, int32_t index,
                                    const FusionTensor *tensor) {
  auto memory = memoryOf(session, tensor);
  if (!memory)
    return FUSION_INVALID_ARGUMENT;
  auto type = static_cast<DType>(tensor->dtype);
  if (tensor->dtype < 0 || tensor->dtype > 255 || bitWidth(type) == 0)
    return usage("fusionSessionBindInput: unknown element type");
  std::vector<int64_t> shape(tensor->dims, tensor->dims + tensor->rank);
  return report(session->session->setInput(static_cast<uint32_t>(index), type,
                                           std::move(shape), tensor->data,
                                           *memory));
}

FusionStatus fusionSessionBindOutput(FusionSession *session, int32_t index,
                                     const FusionTensor *tensor) {
  auto memory = memoryOf(session, tensor);
  if (!memory)
    return FUSION_INVALID_ARGUMENT;
  return report(session->session->setOutput(
      static_cast<uint32_t>(index), tensor->data, tensor->bytes, *memory));
}

FusionStatus fusionSessionRun(FusionSession *session) {
  if (!session)
    return usage("fusionSessionRun: null argument");
  return report(session->session->run());
}

FusionStatus fusionSessionRunTimed(FusionSession *session, double *seconds) {
  if (!session || !seconds)
    return usage("fusionSessionRunTimed: null argument");
  if (session->session->loaded().device() != Device::Cuda)
    return usage("fusionSessionRunTimed: the model was opened for the host");
  RunOptions options;
  options.deviceSeconds = seconds;
  return report(session->session->run(options));
}

FusionStatus fusionSessionGetOutput(const FusionSession *session, int32_t index,
                                    const void **data, uint64_t *bytes,
                                    int32_t *rank, const int64_t **dims) {
  if (!session || index < 0 ||
      static_cast<size_t>(index) >=
          session->session->loaded().model().outputs.size())
    return usage("there is no output of this index");
  const TensorView &view =
      session->session->output(static_cast<uint32_t>(index));
  if (!view.data)
    return usage("the session has not run yet");
  if (data)
    *data = view.data;
  if (bytes)
    *bytes = view.bytes;
  if (rank)
    *rank = static_cast<int32_t>(view.shape.size());
  if (dims)
    *dims = view.shape.data();
  return report({});
}

int64_t fusionSessionLength(const FusionSession *session) {
  return session->session->length();
}

FusionStatus fusionSessionReset(FusionSession *session) {
  if (!session)
    return usage("fusionSessionReset: null argument");
  session->session->reset();
  return report({});
}

FusionStatus fusionSessionTruncate(FusionSession *session, int64_t length) {
  if (!session)
    return usage("fusionSessionTruncate: null argument");
  return report(session->session->truncate(length));
}

int32_t fusionSessionSequenceCount(const FusionSession *session) {
  return static_cast<int32_t>(session->session->sequences());
}

int64_t fusionSessionSequenceLength(const FusionSession *session,
                                    int32_t sequence) {
  auto index = static_cast<size_t>(sequence);
  return index < session->session->sequences()
             ? session->session->sequenceLength(index)
             : -1;
}

FusionStatus fusionSessionTruncateSequence(FusionSession *session,
                                           int32_t sequence, int64_t length) {
  if (!session)
    return usage("fusionSessionTruncateSequence: null argument");
  return report(session->session->truncateSequence(
      static_cast<size_t>(sequence), length));
}

FusionStatus fusionSessionSetTokenCounts(FusionSession *session,
                                         const int64_t *counts, int32_t count) {
  if (!session || count < 0 || (count > 0 && !counts))
    return usage("fusionSessionSetTokenCounts: null or negative argument");
  return report(session->session->setTokenCounts({counts, counts + count}));
}

FusionStatus fusionSessionStep(FusionSession *session, const int64_t *ids,
                               int64_t count, int64_t *next) {
  if (!session || !next || count < 0 || (count > 0 && !ids))
    return usage("fusionSessionStep: null or negative argument");
  if (!session->decoder) {
    auto decoder = Decoder::create(*session->session);
    if (!decoder)
      return report(decoder.status());
    session->decoder = std::move(*decoder);
  }
  auto token = session->decoder->step({ids, ids + count});
  if (!token)
    return report(token.status());
  *next = *token;
  return report({});
}
