//===- SampleModel.h - A model that uses every field ------------*- C++ -*-===//

#ifndef FUSION_TEST_SAMPLEMODEL_H
#define FUSION_TEST_SAMPLEMODEL_H

#include "fusion/Artifact/Model.h"

namespace fusion::artifact {

inline CardStage sampleStage() {
  SymExpr rows = SymExpr::symbol("d0");
  CardStage s;
  s.symbol = "k0";
  s.threads = 384;
  s.cluster = 2;
  s.sharedBytes = 65536;
  s.grid = rows * 2;
  s.maps = {{1, DType::BF16, 64, {128, rows}, {256}, {64, 32}, 128}};
  s.registers = 32;
  s.staticSharedBytes = 1024;
  return s;
}

/// Two symbols, a state, two weights, one kernel for two targets, one program.
inline Model sampleModel() {
  SymExpr seq = SymExpr::symbol("seq"), past = SymExpr::symbol("past");
  Model m;
  m.producer = "test 1";
  m.name = "sample";
  m.options = "--target=host";
  m.explain = "{}";
  m.symbols = {{"seq", Symbol::Source::InputDim, 0, 1, 1, 4096},
               {"past", Symbol::Source::CachedLength, 0, 0, 0, 1023}};
  m.inputs = {{"ids", DType::I64, {1, seq}, Role::TokenIds}};
  m.outputs = {{"logits", DType::F32, {1, seq, 8}, Role::Logits}};
  m.states = {{"k", DType::F32, {1, 1024, 8}, 1}};
  m.weights = {{"w", DType::F32, {8, 8}, "", 0, 256},
               {"q", DType::I4, {3}, "packed", 0, 100}};
  m.kernels = {{"k0",
                "pointwise",
                "tile=4",
                {{KernelCode::Target::HostV3, 0, 16, {}, 0, 0},
                 {KernelCode::Target::Sm90a,
                  1,
                  0,
                  {sampleStage()},
                  SymExpr(64) * SymExpr::symbol("d0"),
                  16}}}};
  m.images = {{KernelCode::Target::HostV3, 0, 0},
              {KernelCode::Target::Sm90a, 0, 0}};
  m.guards = {{seq, seq, "none"}};
  m.maxContext = 1024;
  m.appended = seq;
  Program p;
  p.name = "main";
  p.set = "unfused";
  p.rows = seq;
  p.minRows = 1;
  p.maxRows = 64;
  p.fixed = {{"past", 0}};
  p.buffers = {{seq * 32, 0, 1, "hidden", DType::F32},
               {*SymExpr::floorDiv(seq + past, 2), 1, 1, "", DType::F32}};
  Launch l;
  l.args = {
      {{BufferRef::Kind::Input, 0, 0}, CacheHint::EvictFirst, Invariance::All},
      {{BufferRef::Kind::Weight, 1, 0}, CacheHint::None, Invariance::None},
      {{BufferRef::Kind::Arena, 1, seq * 4}, CacheHint::None, Invariance::None},
      {}};
  l.sizes = {seq, past + seq};
  l.grid = seq * 2;
  l.grain = 4;
  l.scratchBytes = 128;
  l.launchClass = LaunchClass::Chain;
  l.programmatic = true;
  l.site = "/layers.0/Add";
  p.launches = {l, l};
  m.programs = {p};
  return m;
}

} // namespace fusion::artifact

#endif // FUSION_TEST_SAMPLEMODEL_H
