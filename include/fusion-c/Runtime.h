/*===- Runtime.h - C interface of the fusion runtime --------------*- C -*-===*\
|*                                                                            *|
|* Runs `model.fusion` files. A model is opened once and shared by any number *|
|* of sessions; a session holds bound inputs, outputs and, for models         *|
|* compiled with --kv-cache=state, the caches. Different sessions may be used *|
|* from different threads at the same time; one session by one thread at a    *|
|* time.                                                                      *|
|*                                                                            *|
|* Every function that can fail returns a FusionStatus; fusionLastError()     *|
|* then says why. Pointers that a function hands out belong to the library.   *|
|*                                                                            *|
|* An artifact holds native code: open only files that you would run.         *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef FUSION_C_RUNTIME_H
#define FUSION_C_RUNTIME_H

#include <stdint.h>

#if defined(__GNUC__)
#define FUSION_EXPORT __attribute__((visibility("default")))
#else
#define FUSION_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FusionModel FusionModel;
typedef struct FusionSession FusionSession;

typedef int32_t FusionStatus;
enum {
  FUSION_OK = 0,
  FUSION_INVALID_INPUT = 1, /* a file, tensor, type or shape given to a run */
  FUSION_INVALID_ARGUMENT = 2, /* the caller's mistake: no such index, ... */
  FUSION_BAD_ARTIFACT = 3,     /* no artifact, altered, truncated, version */
  FUSION_UNAVAILABLE = 4,      /* device, driver or instruction set missing */
  FUSION_FAILED = 5            /* a kernel reported an error; no memory */
};

/* Element types carry the numbers of ONNX's TensorProto.DataType (1 float,
   7 int64, 10 float16, 16 bfloat16, ...). Elements of 4 bits are packed, the
   first in the low half of a byte. Tensors are row-major and dense. */

enum { /* FusionTensorInfo::role */
       FUSION_ROLE_NONE = 0,
       FUSION_ROLE_TOKEN_IDS = 1,
       FUSION_ROLE_ATTENTION_MASK = 2,
       FUSION_ROLE_POSITION_IDS = 3,
       FUSION_ROLE_PAST_KEY = 4,
       FUSION_ROLE_PAST_VALUE = 5,
       FUSION_ROLE_LOGITS = 6,
       FUSION_ROLE_PRESENT_KEY = 7,
       FUSION_ROLE_PRESENT_VALUE = 8,
       FUSION_ROLE_CACHED_LENGTHS = 9 /* the session gives it itself */
};

typedef struct {
  const char *name;
  int32_t dtype;
  int32_t role;
  int32_t rank;
  const int64_t *dims; /* -1 where the size is only known at run time */
  const char *const
      *dim_text; /* the size as an expression, e.g. "past + seq" */
} FusionTensorInfo;

/* Why the last call of this thread failed; "" after a success. Lower case, no
   full stop. Valid until the thread's next call. */
FUSION_EXPORT const char *fusionLastError(void);

/* --- Models ------------------------------------------------------------- */

/* `device` is "host" (or NULL), "cuda" or "cuda:N", where N numbers the card.
   `threads` is the number of threads of the host executor, the calling one
   included; 0 takes one a processor. On a card the process's primary context is
   used, as other CUDA libraries do; the caller's current context is kept. */
FUSION_EXPORT FusionStatus fusionModelOpen(const char *path, const char *device,
                                           int32_t threads,
                                           FusionModel **model);
/* Sessions keep what they need of the model: it may be closed before them. */
FUSION_EXPORT void fusionModelClose(FusionModel *model);

FUSION_EXPORT int32_t fusionModelInputCount(const FusionModel *model);
FUSION_EXPORT int32_t fusionModelOutputCount(const FusionModel *model);
FUSION_EXPORT FusionStatus fusionModelInput(const FusionModel *model,
                                            int32_t index,
                                            FusionTensorInfo *info);
FUSION_EXPORT FusionStatus fusionModelOutput(const FusionModel *model,
                                             int32_t index,
                                             FusionTensorInfo *info);
/* The index of an input or output, or -1. */
FUSION_EXPORT int32_t fusionModelFindInput(const FusionModel *model,
                                           const char *name);
FUSION_EXPORT int32_t fusionModelFindOutput(const FusionModel *model,
                                            const char *name);
/* Tokens that the caches hold (--max-context); 0 when the model has none. */
FUSION_EXPORT int64_t fusionModelMaxContext(const FusionModel *model);
/* The fusion report that the compiler stored, as JSON. */
FUSION_EXPORT const char *fusionModelExplain(const FusionModel *model);
/* The artifact as text: symbols, tensors, kernels, launches. */
FUSION_EXPORT const char *fusionModelDump(const FusionModel *model);

/* --- Sessions ----------------------------------------------------------- */

FUSION_EXPORT FusionStatus fusionSessionCreate(const FusionModel *model,
                                               FusionSession **session);
FUSION_EXPORT void fusionSessionDestroy(FusionSession *session);

/* Binds an input. `data` is read during fusionSessionRun and must stay valid
   until then; binding lasts until the input is bound again. Shapes are checked
   when the session runs. */
FUSION_EXPORT FusionStatus fusionSessionSetInput(FusionSession *session,
                                                 int32_t index, int32_t dtype,
                                                 int32_t rank,
                                                 const int64_t *dims,
                                                 const void *data);
/* Lets an output be written to the caller's memory of `bytes` bytes; NULL goes
   back to the session's own. */
FUSION_EXPORT FusionStatus fusionSessionSetOutput(FusionSession *session,
                                                  int32_t index, void *data,
                                                  uint64_t bytes);

/* Where memory is: the numbers of DLPack's DLDeviceType. */
enum { FUSION_CPU = 1, FUSION_CUDA = 2, FUSION_CUDA_HOST = 3 };

/* A dense row-major tensor of the caller's. */
typedef struct {
  void *data;
  int32_t device_type; /* FUSION_CPU, FUSION_CUDA or FUSION_CUDA_HOST */
  int32_t device_id;   /* of FUSION_CUDA: the card's number */
  int32_t dtype;
  int32_t rank;
  const int64_t *dims;
  uint64_t bytes; /* of the memory; outputs may need less */
} FusionTensor;

/* Like fusionSessionSetInput and fusionSessionSetOutput, for memory of the
   processor or of the model's card, which is used where it is, without a copy.
   Work that fills an input on the card must have finished before
   fusionSessionRun; when that returns, the outputs are complete. `dtype`,
   `rank` and `dims` of an output are not read. Replayed launches (CUDA graphs)
   are kept for the last addresses: let them change rarely. */
FUSION_EXPORT FusionStatus fusionSessionBindInput(FusionSession *session,
                                                  int32_t index,
                                                  const FusionTensor *tensor);
FUSION_EXPORT FusionStatus fusionSessionBindOutput(FusionSession *session,
                                                   int32_t index,
                                                   const FusionTensor *tensor);

FUSION_EXPORT FusionStatus fusionSessionRun(FusionSession *session);
/* The same, on a card; `seconds` gets the time between the begin of the first
   kernel and the end of the last one, as the card measures it. */
FUSION_EXPORT FusionStatus fusionSessionRunTimed(FusionSession *session,
                                                 double *seconds);
/* Of the last run; valid until the next one. Each pointer may be NULL. `data`
   is in the processor's memory unless the output is bound to a card's. */
FUSION_EXPORT FusionStatus fusionSessionGetOutput(
    const FusionSession *session, int32_t index, const void **data,
    uint64_t *bytes, int32_t *rank, const int64_t **dims);

/* --- Caches (--kv-cache=state) ------------------------------------------ */

/* Number of tokens that the caches hold. */
FUSION_EXPORT int64_t fusionSessionLength(const FusionSession *session);
/* Forgets all tokens. */
FUSION_EXPORT FusionStatus fusionSessionReset(FusionSession *session);
/* Keeps the first `length` tokens. */
FUSION_EXPORT FusionStatus fusionSessionTruncate(FusionSession *session,
                                                 int64_t length);
/* Sequences of a batch with cached lengths of their own (--kv-lengths=own); 0
   where the batch has one length, which fusionSessionLength says. */
FUSION_EXPORT int32_t fusionSessionSequenceCount(const FusionSession *session);
/* Tokens cached of one sequence; -1 where there is no such sequence. */
FUSION_EXPORT int64_t fusionSessionSequenceLength(const FusionSession *session,
                                                  int32_t sequence);
/* Keeps the first `length` tokens of one sequence. */
FUSION_EXPORT FusionStatus fusionSessionTruncateSequence(FusionSession *session,
                                                         int32_t sequence,
                                                         int64_t length);
/* How many tokens of the next run each sequence keeps; the rest of its row is
   padding. Without it all tokens are kept. `count` is the number of sequences.
 */
FUSION_EXPORT FusionStatus fusionSessionSetTokenCounts(FusionSession *session,
                                                       const int64_t *counts,
                                                       int32_t count);
/* One step of greedy decoding: feeds `count` token ids (the prompt, or the
   last chosen token), fills mask and positions, runs, and chooses the token
   with the largest logit after the last one. */
FUSION_EXPORT FusionStatus fusionSessionStep(FusionSession *session,
                                             const int64_t *ids, int64_t count,
                                             int64_t *next);

#ifdef __cplusplus
}
#endif

#endif /* FUSION_C_RUNTIME_H */
